//! What a capture that cut a frame short hides of the bytes that a device hashed.

use crate::bytes::number16;
use crate::dissection::{Dissection, TransportHeader};
use crate::layout::{Marks, PORTS, TCP_HEADER, UDP_HEADER, truncated};
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;
use crate::rss_input::HashTypes;
use crate::tunnel::{Content, Tunnel, Unsupported};
use corelane_rss::HashType;

impl<'frame> Dissection<'frame> {
    /// Like [`Dissection::of`], for a comparison with the hash of a device that has these types enabled: a frame that ends
    /// before bytes that decide this hash is refused as truncated too.
    ///
    /// # Errors
    /// As [`Dissection::of`], and [`Refusal::Truncated`] if [`Dissection::hides_hash_input`].
    pub fn of_hashed(frame: &'frame [u8], enabled: HashTypes) -> Result<Dissection<'frame>, Refusal> {
        let dissection = Dissection::of(frame)?;
        let at = dissection.transport_offset();
        match dissection.hides_hash_input(enabled) {
            true => Err(truncated("transport", PORTS, frame, at)),
            false => Ok(dissection),
        }
    }

    /// Whether the frame was captured without bytes that decide what a device hashes that has these types enabled: the ports,
    /// or the extension headers before them. [`Dissection::rss_input`] is then the input of another packet.
    ///
    /// A packet that by its own length has no ports hides nothing: the device does not see any either.
    #[must_use]
    pub fn hides_hash_input(&self, enabled: HashTypes) -> bool {
        if !self.is_truncated() && !self.has_no_length() {
            return false;
        }
        let any = |types: &[HashType]| types.iter().any(|hash_type| enabled.contains(*hash_type));
        let ports_count = !self.is_fragment() && !self.is_authenticated();
        if self.has(Marks::CUT) {
            // Of IPv4, only authentication headers are skipped: the packet hashes by its addresses whatever follows.
            return self.has(Marks::V6)
                && (ports_count && (any(&TCP_V6) || any(&UDP_V6))
                    || !self.is_part() && any(&[HashType::IPV6_EX]));
        }
        let (header, types): (_, &[HashType]) = match (self.protocol(), self.has(Marks::V6)) {
            (IpProtocol::TCP, false) => (TCP_HEADER, &[HashType::TCP_IPV4]),
            (IpProtocol::TCP, true) => (TCP_HEADER, &TCP_V6),
            (IpProtocol::UDP, false) => (UDP_HEADER, &[HashType::UDP_IPV4]),
            (IpProtocol::UDP, true) => (UDP_HEADER, &UDP_V6),
            _ => return false,
        };
        let length = self.layout.end().saturating_sub(self.transport_offset());
        ports_count
            && any(types)
            && self.transport() == TransportHeader::Missing
            && (length >= header || self.has_no_length())
    }

    /// Whether the frame was captured without bytes that some device hashes: its ports, extension headers, or those of the
    /// packet inside a tunnel.
    pub(crate) fn hides_any_input(&self) -> bool {
        if !self.is_truncated() && !self.has_no_length() {
            return false;
        }
        self.hides_hash_input(HashTypes::ALL)
            // A device may take what follows the IP header of a fragment for ports.
            || self.frame().len() < self.transport_offset() + PORTS
            || self.hides_inner_input()
    }

    /// Whether the frame was captured without bytes that a device hashes that looks into tunnels.
    fn hides_inner_input(&self) -> bool {
        match Tunnel::of(self) {
            None => false,
            Some(Ok(tunnel)) => {
                tunnel.content() != Content::Encrypted
                    && tunnel
                        .inner(self)
                        .is_none_or(|inner| inner.hides_hash_input(HashTypes::ALL))
            }
            Some(Err(reason)) => reason == Unsupported::Truncated,
        }
    }

    /// Whether the length field is zero, as of a packet too long for it: it may reach beyond the captured part.
    fn has_no_length(&self) -> bool {
        let at = if self.has(Marks::V6) { 4 } else { 2 };
        number16(self.frame(), self.network_offset() + at) == Some(0)
    }
}

const TCP_V6: [HashType; 2] = [HashType::TCP_IPV6, HashType::TCP_IPV6_EX];
const UDP_V6: [HashType; 2] = [HashType::UDP_IPV6, HashType::UDP_IPV6_EX];
