//! Whether the checksums of a packet are right.

use crate::bytes::number16;
use crate::checksum;
use crate::dissection::{Dissection, TransportHeader};
use crate::ipv4;
use crate::layout::{IPV4_HEADER, Marks};
use crate::protocol::IpProtocol;

/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;

impl Dissection<'_> {
    /// Whether the checksum of the IPv4 header, or that of TCP or UDP, is wrong. What cannot be judged is not wrong: a fragment,
    /// a packet that is not there whole or is on a source route, UDP without checksum (RFC 768; RFC 6935, section 5).
    #[must_use]
    #[inline]
    pub fn has_wrong_checksum(&self) -> bool {
        self.has_wrong_header() || self.has_wrong_segment()
    }

    #[inline]
    fn has_wrong_header(&self) -> bool {
        if self.has(Marks::V6) {
            return false;
        }
        let header = &self.frame[self.network_offset()..];
        // A constant length is summed without a loop.
        let sum = match header.first_chunk::<IPV4_HEADER>() {
            Some(fixed) if fixed[0] & 0x0f == 5 => checksum::sum(fixed),
            _ => checksum::sum(&header[..usize::from(header[0] & 0x0f) * 4]),
        };
        checksum::finished(sum) != 0
    }

    #[inline]
    fn has_wrong_segment(&self) -> bool {
        match self.protocol() {
            IpProtocol::UDP => {
                let checksum = number16(self.frame, self.transport_offset() + UDP_CHECKSUM);
                checksum != Some(0) && self.is_damaged()
            }
            IpProtocol::TCP => self.is_damaged(),
            _ => false,
        }
    }

    /// Whether the sum over TCP, or over UDP with a checksum, is wrong.
    fn is_damaged(&self) -> bool {
        if self.is_part() || self.is_truncated() || self.has(Marks::CUT) || self.is_on_source_route() {
            return false;
        }
        let segment = &self.frame[self.transport_offset()..self.packet_end()];
        let covered = match self.transport() {
            TransportHeader::Tcp(_) => Some(segment),
            TransportHeader::Udp(_) => number16(segment, 4).and_then(|length| segment.get(..length.into())),
            _ => None,
        };
        let Some(covered) = covered else { return false };
        let (from, length) = self.addresses_span();
        let addresses = checksum::sum(&self.frame[from..from + length]);
        let pseudo_header = addresses + u64::from(self.protocol().0) + covered.len() as u64;
        checksum::finished(pseudo_header + checksum::sum(covered)) != 0
    }

    /// Whether the pseudo-header has another address than the IP header: that of a home address option (RFC 6275, section
    /// 11.3.2), or the last hop (RFC 8200, section 8.1; RFC 791, section 3.1).
    fn is_on_source_route(&self) -> bool {
        let (network, upper) = (self.network_offset(), self.transport_offset());
        match self.has(Marks::V6) {
            true => self.home_address().is_some() || self.has(Marks::UNDER_WAY),
            false => upper > network + IPV4_HEADER && ipv4::is_source_routed(self.frame, network, upper),
        }
    }
}
