//! Edits addresses and ports of a frame in place and updates its checksums.

use crate::checksum;
use crate::dissection::{Dissection, TransportHeader};
use crate::ethernet::MacAddress;
use crate::ipv4;
use crate::layout::{Layout, Marks, SCTP_HEADER};
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;
use crate::tunnel;
use std::net::IpAddr;
use thiserror::Error;

/// Offset of the checksum in an SCTP header (RFC 9260, section 3.1).
const SCTP_CHECKSUM: usize = 8;

/// Edits one frame. An edit keeps every checksum as valid or as wrong as it was, or fails and changes nothing. It does
/// not update checksums inside an encapsulating security payload, nor those of protocols other than TCP, UDP, UDP-Lite,
/// DCCP, SCTP and ICMPv6.
///
/// Checksums are updated incrementally (RFC 1624), so the payload is not read and may be missing. This does not work
/// for frames that the sending host captured before its device completed the checksums: they carry a partial sum.
#[derive(Debug)]
pub struct Editor<'frame> {
    frame: &'frame mut [u8],
    layout: Layout,
}

impl<'frame> Editor<'frame> {
    /// An editor of an Ethernet frame; fails with the errors of [`Dissection::of`].
    pub fn of(frame: &'frame mut [u8]) -> Result<Editor<'frame>, Refusal> {
        let layout = Dissection::of(frame)?.layout;
        Ok(Editor { frame, layout })
    }

    /// An editor of a frame whose layout was kept; see [`Dissection::again`].
    #[must_use]
    pub fn again(frame: &'frame mut [u8], layout: Layout) -> Editor<'frame> {
        Editor { frame, layout }
    }

    /// The dissection of the current frame.
    #[must_use]
    pub fn dissection(&self) -> Dissection<'_> {
        // Edits of addresses and ports do not move headers.
        let (frame, layout) = (&*self.frame, self.layout);
        Dissection { frame, layout }
    }

    /// Sets the source MAC address.
    pub fn set_ethernet_source(&mut self, address: MacAddress) {
        self.frame[6..12].copy_from_slice(&address.0);
    }

    /// Sets the destination MAC address.
    pub fn set_ethernet_destination(&mut self, address: MacAddress) {
        self.frame[0..6].copy_from_slice(&address.0);
    }

    /// Sets the source address of the IP header.
    pub fn set_source(&mut self, address: IpAddr) -> Result<(), EditError> {
        self.set_address(End::Source, address)
    }

    /// Sets the destination address of the IP header.
    pub fn set_destination(&mut self, address: IpAddr) -> Result<(), EditError> {
        self.set_address(End::Destination, address)
    }

    /// Sets the source port of TCP, UDP or SCTP.
    pub fn set_source_port(&mut self, port: u16) -> Result<(), EditError> {
        self.set_port(End::Source, port)
    }

    /// Sets the destination port of TCP, UDP or SCTP.
    pub fn set_destination_port(&mut self, port: u16) -> Result<(), EditError> {
        self.set_port(End::Destination, port)
    }

    /// Sets the type of service, or the traffic class: see [`Dissection::traffic_class`].
    pub fn set_traffic_class(&mut self, class: u8) {
        let at = self.layout.network();
        if self.layout.has(Marks::V6) {
            self.frame[at] = 0x60 | class >> 4;
            self.frame[at + 1] = class << 4 | self.frame[at + 1] & 0x0f;
        } else {
            let word = [self.frame[at], class];
            self.follow((at + ipv4::CHECKSUM, Zero::Plain), at, &word);
            self.frame[at + 1] = class;
        }
    }

    fn finish_checksum(&mut self) {
        let (layout, start, end) = (self.layout, self.layout.upper(), self.layout.end());
        if layout.has(Marks::PART) || end > self.frame.len() {
            return;
        }
        let protocol = layout.protocol();
        match protocol {
            IpProtocol::TCP | IpProtocol::UDP => {}
            IpProtocol::SCTP => return self.finish_sctp(),
            IpProtocol::GRE => return self.finish_gre(),
            _ => return,
        }
        let Ok(Some((at, zero))) = self.transport_checksum() else {
            return;
        };
        let pseudo_header = self.dissection().pseudo_header_sum();
        if self.frame[at..at + 2] == (!checksum::finished(pseudo_header)).to_be_bytes() {
            let finished = match checksum::finished(checksum::sum(&self.frame[start..end])) {
                0 if zero != Zero::Plain => 0xffff,
                sum => sum,
            };
            self.frame[at..at + 2].copy_from_slice(&finished.to_be_bytes());
        }
    }

    /// The field of SCTP is zero until its device computes the checksum.
    fn finish_sctp(&mut self) {
        let packet = &mut self.frame[self.layout.upper()..self.layout.end()];
        if packet.get(SCTP_CHECKSUM..SCTP_HEADER) == Some(&[0; 4]) {
            let checksum = checksum::crc32c(packet);
            packet[SCTP_CHECKSUM..SCTP_HEADER].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// The field of GRE, if the flags announce one, is zero until its device computes the checksum (RFC 2784, section 2.3).
    fn finish_gre(&mut self) {
        let packet = &mut self.frame[self.layout.upper()..self.layout.end()];
        if let [flags, _, _, _, 0, 0, ..] = packet
            && *flags & 0x80 != 0
        {
            let checksum = checksum::internet(packet);
            packet[4..6].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    fn set_address(&mut self, end: End, address: IpAddr) -> Result<(), EditError> {
        let network = self.layout.network();
        let (bytes, length, offset) = match (address, self.layout.has(Marks::V6)) {
            (IpAddr::V4(v4), false) => (v4.to_ipv6_mapped().octets(), 4, end.pick(12, 16)),
            (IpAddr::V6(v6), true) => (v6.octets(), 16, end.pick(8, 24)),
            _ => return Err(EditError::Family { address }),
        };
        // An IPv4-mapped address ends in the IPv4 address.
        let new = &bytes[16 - length..];
        if self.layout.has(Marks::AUTHENTICATED) {
            return Err(EditError::Authenticated);
        }
        let transport = self.checksum_over_addresses(end)?;
        let at = network + offset;
        let of_header = address
            .is_ipv4()
            .then_some((network + ipv4::CHECKSUM, Zero::Plain));
        for checksum in of_header.into_iter().chain(transport) {
            self.follow(checksum, at, new);
        }
        self.frame[at..at + new.len()].copy_from_slice(new);
        Ok(())
    }

    fn set_port(&mut self, end: End, port: u16) -> Result<(), EditError> {
        if self.layout.has(Marks::AUTHENTICATED) {
            return Err(EditError::Authenticated);
        }
        if self.dissection().ports().is_none() {
            let protocol = self.layout.protocol();
            return Err(EditError::NoPorts { protocol });
        }
        let at = self.layout.upper() + end.pick(0, 2);
        if let TransportHeader::Sctp(_) = self.dissection().transport() {
            self.follow_sctp(end, port)?;
        } else if let Some(checksum) = self.transport_checksum()? {
            self.follow(checksum, at, &port.to_be_bytes());
        }
        self.frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
        Ok(())
    }

    /// The checksum whose pseudo-header includes the address at this end. None if the pseudo-header uses another
    /// address: that of a home address option as the source (RFC 6275, section 11.3.2), the last hop of a source route
    /// as the destination (RFC 8200, section 8.1; RFC 791, section 3.1).
    fn checksum_over_addresses(&self, end: End) -> Result<Option<Checksum>, EditError> {
        let elsewhere = match end {
            End::Source => self.layout.home().is_some(),
            End::Destination if self.layout.has(Marks::V6) => self.layout.has(Marks::UNDER_WAY),
            End::Destination => {
                ipv4::is_source_routed(self.frame, self.layout.network(), self.layout.upper())
            }
        };
        match elsewhere {
            true => Ok(None),
            false => self.transport_checksum(),
        }
    }

    /// The Internet checksum of the transport header whose sum includes the addresses; SCTP, ESP and unknown protocols
    /// have none.
    fn transport_checksum(&self) -> Result<Option<Checksum>, EditError> {
        if self.layout.has(Marks::LATER) {
            return Ok(None);
        }
        if self.layout.has(Marks::CUT) {
            return Err(EditError::Truncated);
        }
        let (offset, zero) = match self.layout.protocol() {
            IpProtocol::TCP => (16, Zero::Plain),
            IpProtocol::UDP => (6, Zero::NotComputed),
            IpProtocol::UDP_LITE => (6, Zero::Never),
            IpProtocol::DCCP => (6, Zero::Plain),
            IpProtocol::ICMPV6 => (2, Zero::Plain),
            _ => return Ok(None),
        };
        let at = self.layout.upper() + offset;
        if at + 2 > self.dissection().packet_end() {
            return Err(EditError::Truncated);
        }
        Ok(Some((at, zero)))
    }

    /// Updates a checksum for the bytes `new` that are about to be written at `edited`.
    fn follow(&mut self, (at, zero): Checksum, edited: usize, new: &[u8]) {
        let old = &self.frame[edited..edited + new.len()];
        let before = u16::from_be_bytes([self.frame[at], self.frame[at + 1]]);
        // A sender that computes no checksum writes zero, and replaces a computed zero by all ones (RFC 768; RFC 3828,
        // section 3.1).
        if (before == 0 && zero == Zero::NotComputed) || old == new {
            return;
        }
        let after = match checksum::updated(before, old, new) {
            0 if zero != Zero::Plain => 0xffff,
            sum => sum,
        };
        self.frame[at..at + 2].copy_from_slice(&after.to_be_bytes());
    }

    /// The CRC of SCTP follows the ports and covers everything up to the end of the packet, which must be unfragmented.
    fn follow_sctp(&mut self, end: End, port: u16) -> Result<(), EditError> {
        let at = self.layout.upper();
        if at + SCTP_HEADER > self.frame.len() {
            return Err(EditError::Truncated);
        }
        if self.layout.has(Marks::PART) {
            return Err(EditError::Fragmented);
        }
        let word = |from: usize| [0, 1, 2, 3].map(|byte| self.frame[from + byte]);
        let old = word(at);
        let mut new = old;
        new[end.pick(0, 2)..][..2].copy_from_slice(&port.to_be_bytes());
        let before = u32::from_le_bytes(word(at + SCTP_CHECKSUM));
        let after = checksum::sctp_updated(before, old, new, self.layout.end() - at);
        self.frame[at + SCTP_CHECKSUM..at + SCTP_HEADER].copy_from_slice(&after.to_le_bytes());
        Ok(())
    }
}

/// Finishes the checksum of an unfragmented TCP or UDP packet if its field has the sum of the pseudo-header, that of SCTP or GRE
/// if it is zero; also those of the packets inside tunnels ([`tunnel::inner`], and behind labels). A virtual device
/// hands on such frames (`CHECKSUM_PARTIAL`, Documentation/networking/checksum-offloads.rst); a device that puts the frame
/// on a wire would add the rest. A correct checksum is not changed, even if it equals that sum.
///
/// Only one of a frame is unfinished: a sender that leaves the inner one to its device has computed those around it.
pub fn finish_checksum(frame: &mut [u8]) {
    let mut next = tunnel::outermost(frame).map(|outermost| outermost.layout);
    while let Some(layout) = next {
        let mut editor = Editor { frame, layout };
        editor.finish_checksum();
        next = tunnel::inner(&editor.dissection()).map(|inner| inner.layout);
    }
}

/// Reason why an edit was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// An address of another family than the packet's.
    #[error("{address} is of another address family than the packet: give one of the packet's own")]
    Family {
        /// The rejected address.
        address: IpAddr,
    },
    /// The packet has no ports, or not in this fragment.
    #[error(
        "a packet of {protocol} whose ports cannot be seen: only TCP, UDP and SCTP headers have ports to set"
    )]
    NoPorts {
        /// The protocol of the packet.
        protocol: IpProtocol,
    },
    /// The capture ends before a checksum that must be updated.
    #[error("the frame ends before the checksum that must follow the edit: capture more of each frame")]
    Truncated,
    /// The checksum covers all fragments of the datagram.
    #[error("the checksum of SCTP covers the whole packet, and this is a fragment of it: reassemble first")]
    Fragmented,
    /// An authentication header covers the edited field (RFC 4302).
    #[error("an authentication header covers the addresses: an edit would make the receiver drop the packet")]
    Authenticated,
}

/// The end of the flow to edit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

impl End {
    fn pick<T>(self, source: T, destination: T) -> T {
        match self {
            End::Source => source,
            End::Destination => destination,
        }
    }
}

/// Offset of an Internet checksum, and the meaning of zero in it.
type Checksum = (usize, Zero);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Plain,
    /// A computed zero is written as all ones.
    Never,
    /// As [`Zero::Never`], and zero means that no checksum was computed.
    NotComputed,
}
