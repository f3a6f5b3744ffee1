//! Dissects one frame: addresses, ports, fragment and offsets.

use crate::bytes::{array, number32};
use crate::checksum;
use crate::ethernet;
use crate::fragment::Fragment;
use crate::layout::{ESP_HEADER, IPV6_HEADER, Layout, Marks, SCTP_HEADER, TCP_HEADER, UDP_HEADER};
use crate::protocol::{EtherType, IpProtocol};
use crate::refusal::Refusal;
use crate::{ipv4, ipv6, plain};
use std::net::{IpAddr, Ipv6Addr};

/// The headers of a frame. Their offsets are determined once; addresses and ports are read from the frame on access.
///
/// Dissection never reads past the frame and takes time linear in its length, whatever its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dissection<'frame> {
    pub(crate) frame: &'frame [u8],
    pub(crate) layout: Layout,
}

impl<'frame> Dissection<'frame> {
    /// Dissects an Ethernet frame, from the destination address on, without frame check sequence. VLAN tags are
    /// skipped, including stacked ones.
    #[inline(always)]
    pub fn of(frame: &'frame [u8]) -> Result<Dissection<'frame>, Refusal> {
        Dissection::of_frame_at(frame, 0)
    }

    /// Dissects a packet that starts at its IP header, as tap devices and tunnels carry it.
    #[inline]
    pub fn of_packet(packet: &'frame [u8]) -> Result<Dissection<'frame>, Refusal> {
        Dissection::of_packet_at(packet, 0)
    }

    /// Dissects an untagged frame with a plain IPv4 packet; `None` for any other frame.
    #[inline(always)]
    pub(crate) fn of_plain_v4(frame: &'frame [u8]) -> Option<Dissection<'frame>> {
        let (ether_type, at) = ethernet::untagged(frame)?;
        let layout = plain::v4(frame, at).filter(|_| ether_type == EtherType::IPV4)?;
        Some(Dissection { frame, layout })
    }

    /// Like [`Dissection::of`], for the frame that starts at `start`; offsets count from the start of `frame`.
    #[inline(always)]
    pub(crate) fn of_frame_at(frame: &'frame [u8], start: usize) -> Result<Dissection<'frame>, Refusal> {
        let (ether_type, at) = ethernet::payload(frame, start)?;
        let layout = match ether_type {
            EtherType::IPV4 => ipv4::layout(frame, at)?,
            EtherType::IPV6 => ipv6::layout(frame, at)?,
            _ => return Err(Refusal::NotIp { ether_type }),
        };
        Ok(Dissection { frame, layout })
    }

    /// Like [`Dissection::of_packet`], for the packet that starts at `at`; offsets count from the start of `frame`.
    #[inline(always)]
    pub(crate) fn of_packet_at(frame: &'frame [u8], at: usize) -> Result<Dissection<'frame>, Refusal> {
        let layout = match frame.get(at).map(|byte| byte >> 4) {
            Some(6) => ipv6::layout(frame, at)?,
            _ => ipv4::layout(frame, at)?,
        };
        Ok(Dissection { frame, layout })
    }

    /// The dissection of a frame whose layout was kept: a frame, or one with other addresses, ports, checksums or time to
    /// live, is not dissected twice.
    ///
    /// The layout must be that of this frame; a debug build asserts it. With the layout of another frame the answers
    /// are wrong, or the methods panic.
    #[must_use]
    #[inline(always)]
    pub fn again(frame: &'frame [u8], layout: Layout) -> Dissection<'frame> {
        let dissection = Dissection { frame, layout };
        debug_assert_eq!(Dissection::of_packet_at(frame, layout.network()), Ok(dissection));
        dissection
    }

    /// What was found of the headers, to be kept for [`Dissection::again`].
    #[must_use]
    #[inline(always)]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The frame that was dissected.
    #[must_use]
    #[inline]
    pub fn frame(&self) -> &'frame [u8] {
        self.frame
    }

    /// The source address of the IP header.
    #[must_use]
    #[inline]
    pub fn source(&self) -> IpAddr {
        self.addresses().ends()[0]
    }

    /// The destination address of the IP header.
    #[must_use]
    #[inline]
    pub fn destination(&self) -> IpAddr {
        self.addresses().ends()[1]
    }

    /// The address of a home address option (RFC 6275, section 6.3): the actual sender.
    #[must_use]
    pub fn home_address(&self) -> Option<Ipv6Addr> {
        self.address_at(self.layout.home())
    }

    /// The address of a routing header type 2 (RFC 6275, section 6.4): the actual receiver.
    #[must_use]
    pub fn routed_destination(&self) -> Option<Ipv6Addr> {
        self.address_at(self.layout.routed())
    }

    /// The protocol behind the IP header and its extension headers; for a fragment, the protocol of the datagram; if
    /// parsing ended early, the header that could not be read.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> IpProtocol {
        self.layout.protocol()
    }

    /// The readable part of the transport header.
    #[must_use]
    #[inline]
    pub fn transport(&self) -> TransportHeader {
        TransportHeader::read(self.frame, self.layout)
    }

    /// The ports of TCP, UDP or SCTP, including those of a first fragment.
    #[must_use]
    #[inline]
    pub fn ports(&self) -> Option<Ports> {
        self.transport().ports()
    }

    /// Type of service, or traffic class: six bits of DSCP, two of ECN (RFC 2474, section 3; RFC 3168, section 5).
    #[must_use]
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        let [first, second] = self.network_bytes(0);
        match self.has(Marks::V6) {
            true => first << 4 | second >> 4,
            false => second,
        }
    }

    /// Time to live, or hop limit.
    #[must_use]
    #[inline]
    pub fn time_to_live(&self) -> u8 {
        let [limit] = self.network_bytes(if self.has(Marks::V6) { 7 } else { 8 });
        limit
    }

    /// Whether the packet is a fragment, and which one.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> Fragment {
        match self.layout.fragment() {
            Some(at) => ipv6::fragment(self.frame, at),
            None if self.has(Marks::V6) => Fragment::Whole,
            None => ipv4::fragment(self.frame, self.layout.network()),
        }
    }

    /// Whether the packet is a fragment (the first one included).
    #[must_use]
    #[inline]
    pub fn is_part(&self) -> bool {
        self.has(Marks::PART)
    }

    /// Whether devices take the packet for a fragment: it is one, or has the fragment header of one. Devices do not read
    /// beyond that header, so an atomic fragment hashes as the others do (`octeontx2-af: optimize parsing of IPv6 fragments`
    /// in Linux; `lab nic` proves it for virtio-net).
    #[must_use]
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.is_part() || self.layout.fragment().is_some()
    }

    /// Offset of the data that a fragment carries: behind the IPv4 header, or behind the fragment header of IPv6; of a whole
    /// packet, the end of the IP header.
    #[must_use]
    #[inline]
    pub fn fragment_data(&self) -> usize {
        match (self.layout.fragment(), self.has(Marks::V6)) {
            (Some(header), _) => header + ipv6::FRAGMENT_HEADER,
            (None, true) => self.network_offset() + IPV6_HEADER,
            (None, false) => self.network_offset() + ipv4::length(self.frame[self.network_offset()]),
        }
    }

    /// Whether an IPv6 extension header (options, routing, fragment, authentication, mobility) follows the IP header.
    #[must_use]
    #[inline]
    pub fn has_extension_headers(&self) -> bool {
        self.has(Marks::EXTENDED)
    }

    /// Whether an authentication header (RFC 4302) precedes the transport header.
    #[must_use]
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.has(Marks::AUTHENTICATED)
    }

    /// Offset of the IP header.
    #[must_use]
    #[inline]
    pub fn network_offset(&self) -> usize {
        self.layout.network()
    }

    /// Offset of the transport header, or of the data of a later fragment. If parsing ended early, the offset of the
    /// header that could not be read.
    #[must_use]
    #[inline]
    pub fn transport_offset(&self) -> usize {
        self.layout.upper()
    }

    /// Offset of the end of the packet in the frame; Ethernet padding may follow.
    #[must_use]
    #[inline]
    pub fn packet_end(&self) -> usize {
        self.layout.end().min(self.frame.len())
    }

    /// Whether the packet is longer than its captured part.
    #[must_use]
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.layout.end() > self.frame.len()
    }

    #[inline(always)]
    pub(crate) fn has(&self, mark: Marks) -> bool {
        self.layout.has(mark)
    }

    /// Bytes at an offset within the fixed IP header.
    #[inline]
    fn network_bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        array(self.frame, self.network_offset() + at).expect("a frame without a whole IP header is refused")
    }

    fn address_at(&self, at: Option<usize>) -> Option<Ipv6Addr> {
        array::<16>(self.frame, at?).map(Ipv6Addr::from)
    }

    /// The sum, not yet [`finished`](crate::checksum::finished), of the pseudo-header that the checksum of an unfragmented
    /// packet covers: addresses, protocol, and bytes behind the IP header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    #[must_use]
    pub fn pseudo_header_sum(&self) -> u64 {
        let (from, length) = self.addresses_span();
        let bytes = self.packet_end() - self.transport_offset();
        checksum::sum(&self.frame[from..from + length]) + u64::from(self.protocol().0) + bytes as u64
    }

    /// Offset and length in bytes of both addresses (RFC 791, section 3.1; RFC 8200, section 3).
    #[inline(always)]
    pub(crate) fn addresses_span(&self) -> (usize, usize) {
        match self.has(Marks::V6) {
            false => (self.network_offset() + 12, 8),
            true => (self.network_offset() + 8, 32),
        }
    }

    /// The addresses of the IP header.
    #[must_use]
    #[inline(always)]
    pub fn addresses(&self) -> Addresses<'frame> {
        let (at, _) = self.addresses_span();
        let from = self.frame.get(at..).unwrap_or_default();
        let addresses = match self.has(Marks::V6) {
            false => from.as_chunks().0.first_chunk().map(Addresses::V4),
            true => from.as_chunks().0.first_chunk().map(Addresses::V6),
        };
        addresses.expect("a frame without a whole IP header is refused")
    }
}

/// Both addresses, source first, in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses<'frame> {
    /// Of IPv4.
    V4(&'frame [[u8; 4]; 2]),
    /// Of IPv6.
    V6(&'frame [[u8; 16]; 2]),
}

impl Addresses<'_> {
    #[inline(always)]
    fn ends(self) -> [IpAddr; 2] {
        match self {
            Addresses::V4(both) => both.map(IpAddr::from),
            Addresses::V6(both) => both.map(IpAddr::from),
        }
    }
}

/// The readable part of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportHeader {
    /// TCP.
    Tcp(Ports),
    /// UDP.
    Udp(Ports),
    /// SCTP.
    Sctp(Ports),
    /// Encapsulating security payload: the content is encrypted.
    Esp {
        /// Security parameters index.
        spi: u32,
    },
    /// Another protocol, see [`Dissection::protocol`].
    Other,
    /// None: this is a later fragment, and the header is in the first one.
    InFirstFragment,
    /// The frame, or the packet by its own length, ends before the header does.
    Missing,
}

impl TransportHeader {
    /// The ports, if the protocol has any.
    #[must_use]
    #[inline]
    pub fn ports(self) -> Option<Ports> {
        match self {
            TransportHeader::Tcp(ports) | TransportHeader::Udp(ports) | TransportHeader::Sctp(ports) => {
                Some(ports)
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn read(frame: &[u8], layout: Layout) -> TransportHeader {
        if layout.has(Marks::CUT) {
            return TransportHeader::Missing;
        }
        if layout.has(Marks::LATER) {
            return TransportHeader::InFirstFragment;
        }
        let at = layout.upper();
        let promised = |bytes| layout.end().saturating_sub(at) >= bytes;
        let ports = |header: usize| {
            let found = array::<4>(frame, at).filter(|_| promised(header))?;
            let [a, b, c, d] = found;
            Some(Ports {
                source: u16::from_be_bytes([a, b]),
                destination: u16::from_be_bytes([c, d]),
            })
        };
        let read = match layout.protocol() {
            IpProtocol::TCP => ports(TCP_HEADER).map(TransportHeader::Tcp),
            IpProtocol::UDP => ports(UDP_HEADER).map(TransportHeader::Udp),
            IpProtocol::SCTP => ports(SCTP_HEADER).map(TransportHeader::Sctp),
            IpProtocol::ESP => number32(frame, at)
                .filter(|_| promised(ESP_HEADER))
                .map(|spi| TransportHeader::Esp { spi }),
            _ => Some(TransportHeader::Other),
        };
        read.unwrap_or(TransportHeader::Missing)
    }
}

/// The ports of a packet, in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}
