//! Offsets of the headers of a frame, packed into two words.

use crate::bytes::array;
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;

/// Bytes of an IPv4 header without options (RFC 791, section 3.1), and of an IPv6 header (RFC 8200, section 3).
pub(crate) const IPV4_HEADER: usize = 20;
pub(crate) const IPV6_HEADER: usize = 40;

/// Bytes of transport headers without options: a packet whose length field says less has no such header (RFC 9293,
/// section 3.1; RFC 768; RFC 9260, section 3.1; RFC 4303, section 2).
pub(crate) const TCP_HEADER: usize = 20;
pub(crate) const UDP_HEADER: usize = 8;
pub(crate) const SCTP_HEADER: usize = 12;
pub(crate) const ESP_HEADER: usize = 8;

/// Bytes of both ports, at the start of TCP, UDP and SCTP headers.
pub(crate) const PORTS: usize = 4;

/// Result of parsing the IP headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    /// Offset of the IP header.
    pub network: usize,
    /// Offset of the end of the IP headers.
    pub upper: usize,
    /// End of the packet by its length field; may lie past the frame.
    pub end: usize,
    /// The protocol after the IP headers.
    pub protocol: IpProtocol,
    pub marks: Marks,
    /// Offset of the IPv6 fragment header. Zero means none, also in the two fields below: offset zero is always before
    /// an IP header.
    pub fragment: usize,
    /// Offset of the address of a home address option.
    pub home: usize,
    /// Offset of the address of a routing header type 2.
    pub routed: usize,
}

/// The largest offset at which a header is parsed.
pub(crate) const FURTHEST: usize = u16::MAX as usize;

/// Offsets and contents of the headers of a frame, except addresses and ports, in 16 bytes.
/// [`Dissection::again`](crate::Dissection::again) takes it, so that who keeps frames dissects them once. Valid only for
/// the frame that it was read from; that frame contains the whole fixed IP header. The default is that of no frame.
// [`Headers`] packed into two words, so that they are passed in registers: passing them field by field through memory
// takes longer than parsing the headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// From the lowest bit on: end of the packet (32 bits), `network` (16), `upper` (16).
    places: u64,
    /// From the lowest bit on: protocol (8), marks (8), `fragment` (16), `home` (16), `routed` (16).
    facts: u64,
}

impl From<Headers> for Layout {
    /// All offsets except the packet's end are at most [`FURTHEST`].
    #[inline(always)]
    fn from(headers: Headers) -> Layout {
        let end = headers.end.min(u32::MAX as usize);
        let bits = |number: usize, at: u32| (number as u64) << at;
        Layout {
            places: bits(end, 0) | bits(headers.network, 32) | bits(headers.upper, 48),
            facts: u64::from(headers.protocol.0)
                | u64::from(headers.marks.0) << 8
                | bits(headers.fragment, 16)
                | bits(headers.home, 32)
                | bits(headers.routed, 48),
        }
    }
}

impl Layout {
    /// Whether it is that of IPv6, not of IPv4.
    #[must_use]
    #[inline(always)]
    pub fn is_v6(self) -> bool {
        self.has(Marks::V6)
    }

    /// Offset of the IP header.
    #[inline(always)]
    pub(crate) fn network(self) -> usize {
        usize::from((self.places >> 32) as u16)
    }

    /// Offset of the end of the IP headers.
    #[inline(always)]
    pub(crate) fn upper(self) -> usize {
        usize::from((self.places >> 48) as u16)
    }

    /// End of the packet by its length field; may lie past the frame.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.places as u32 as usize
    }

    /// The protocol after the IP headers.
    #[inline(always)]
    pub(crate) fn protocol(self) -> IpProtocol {
        IpProtocol(self.facts as u8)
    }

    #[inline(always)]
    pub(crate) fn has(self, mark: Marks) -> bool {
        Marks((self.facts >> 8) as u8).has(mark)
    }

    /// Offset of the IPv6 fragment header.
    #[inline(always)]
    pub(crate) fn fragment(self) -> Option<usize> {
        self.place(16)
    }

    /// Offset of the address of a home address option.
    #[inline(always)]
    pub(crate) fn home(self) -> Option<usize> {
        self.place(32)
    }

    /// Offset of the address of a routing header type 2.
    #[inline(always)]
    pub(crate) fn routed(self) -> Option<usize> {
        self.place(48)
    }

    #[inline(always)]
    fn place(self, at: u32) -> Option<usize> {
        Some(usize::from((self.facts >> at) as u16)).filter(|place| *place != 0)
    }
}

/// Boolean properties of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub const NONE: Marks = Marks(0);
    /// IPv6, not IPv4.
    pub const V6: Marks = Marks(1);
    /// A fragment.
    pub const PART: Marks = Marks(1 << 1);
    /// A fragment without the transport header.
    pub const LATER: Marks = Marks(1 << 2);
    /// IPv6 extension headers follow the IP header.
    pub const EXTENDED: Marks = Marks(1 << 3);
    /// An authentication header precedes the transport header.
    pub const AUTHENTICATED: Marks = Marks(1 << 4);
    /// A routing header has segments left: the destination of the IP header is not the last one.
    pub const UNDER_WAY: Marks = Marks(1 << 5);
    /// Parsing ended at an incomplete extension or authentication header.
    pub const CUT: Marks = Marks(1 << 6);
    /// A whole packet of TCP or UDP without options and extension headers: its ports directly follow its addresses.
    pub const PLAIN: Marks = Marks(1 << 7);

    #[inline(always)]
    pub fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }

    #[inline(always)]
    #[must_use]
    pub fn with(self, mark: Marks) -> Marks {
        Marks(self.0 | mark.0)
    }
}

/// Error for a header at `at` of `needed` bytes that the frame truncates.
#[cold]
pub(crate) fn truncated(layer: &'static str, needed: usize, frame: &[u8], at: usize) -> Refusal {
    Refusal::Truncated {
        layer,
        needed,
        captured: frame.len().saturating_sub(at),
    }
}

/// The fixed part of the IP header of this version at `at`.
#[inline]
pub(crate) fn fixed<const N: usize>(
    layer: &'static str,
    version: u8,
    frame: &[u8],
    at: usize,
) -> Result<[u8; N], Refusal> {
    let fixed: [u8; N] = array(frame, at).ok_or_else(|| truncated(layer, N, frame, at))?;
    match fixed[0] >> 4 {
        found if found != version => Err(Refusal::Version {
            layer,
            version: found,
        }),
        _ => Ok(fixed),
    }
}

/// Type and offset of the header after an authentication header at `at`. Its length field counts words of 4 bytes,
/// minus two (RFC 4302, section 2.2).
pub(crate) fn behind_authentication(frame: &[u8], at: usize) -> Option<(IpProtocol, usize)> {
    let [next, length] = array(frame, at)?;
    Some((IpProtocol(next), at + (usize::from(length) + 2) * 4))
}
