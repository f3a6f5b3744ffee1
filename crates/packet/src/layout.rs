//! Where the headers of a frame stand: what the walk over them found enters, two words that hold it leave.

use crate::bytes::array;
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;

/// Bytes of transport headers without options: a packet that says to be shorter has no such header (RFC 9293, section 3.1;
/// RFC 768; RFC 9260, section 3.1; RFC 4303, section 2).
pub(crate) const TCP_HEADER: usize = 20;
pub(crate) const UDP_HEADER: usize = 8;
pub(crate) const SCTP_HEADER: usize = 12;
pub(crate) const ESP_HEADER: usize = 8;

/// Bytes of both ports, with which TCP, UDP and SCTP start.
pub(crate) const PORTS: usize = 4;

/// What a walk over IP headers found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    /// Where the IP header starts.
    pub network: usize,
    /// Where the IP headers end.
    pub upper: usize,
    /// Where the packet ends by its own length; may lie past the frame.
    pub end: usize,
    /// What stands where the IP headers end.
    pub protocol: IpProtocol,
    pub marks: Marks,
    /// Where the fragment header of IPv6 stands; like the two that follow, zero where there is none, since an IP header
    /// stands before.
    pub fragment: usize,
    /// Where the address of a home address option stands.
    pub home: usize,
    /// Where the address of a routing header type 2 stands.
    pub routed: usize,
}

/// The furthest byte at which a header is looked for.
pub(crate) const FURTHEST: usize = u16::MAX as usize;

/// Where the headers of a frame stand and what they say, addresses and ports aside. Holds for the frame that it was read
/// of: the whole fixed IP header is in it.
///
/// [`Headers`] packed into two words, so that they travel in registers: through memory, field by field, takes longer than
/// reading the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// From the lowest bit on: end of the packet (32 bits), `network` (16), `upper` (16).
    places: u64,
    /// From the lowest bit on: protocol (8), marks (8), `fragment` (16), `home` (16), `routed` (16).
    facts: u64,
}

impl From<Headers> for Layout {
    /// No offset but the packet's end lies past [`FURTHEST`].
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
    /// Where the IP header starts.
    #[inline(always)]
    pub fn network(self) -> usize {
        usize::from((self.places >> 32) as u16)
    }

    /// Where the IP headers end.
    #[inline(always)]
    pub fn upper(self) -> usize {
        usize::from((self.places >> 48) as u16)
    }

    /// Where the packet ends by its own length; may lie past the frame.
    #[inline(always)]
    pub fn end(self) -> usize {
        self.places as u32 as usize
    }

    /// What stands where the IP headers end.
    #[inline(always)]
    pub fn protocol(self) -> IpProtocol {
        IpProtocol(self.facts as u8)
    }

    #[inline(always)]
    pub fn has(self, mark: Marks) -> bool {
        Marks((self.facts >> 8) as u8).has(mark)
    }

    /// Where the fragment header of IPv6 stands.
    pub fn fragment(self) -> Option<usize> {
        self.place(16)
    }

    /// Where the address of a home address option stands.
    pub fn home(self) -> Option<usize> {
        self.place(32)
    }

    /// Where the address of a routing header type 2 stands.
    pub fn routed(self) -> Option<usize> {
        self.place(48)
    }

    fn place(self, at: u32) -> Option<usize> {
        Some(usize::from((self.facts >> at) as u16)).filter(|place| *place != 0)
    }
}

/// What is yes or no of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub const NONE: Marks = Marks(0);
    /// IPv6, not IPv4.
    pub const V6: Marks = Marks(1);
    /// A part of a datagram.
    pub const PART: Marks = Marks(1 << 1);
    /// A part that does not start with the transport header.
    pub const LATER: Marks = Marks(1 << 2);
    /// IPv6 extension headers follow the IP header.
    pub const EXTENDED: Marks = Marks(1 << 3);
    /// An authentication header stands before the transport header.
    pub const AUTHENTICATED: Marks = Marks(1 << 4);
    /// A routing header has segments left: the destination of the IP header is not the last one.
    pub const UNDER_WAY: Marks = Marks(1 << 5);
    /// The extension or authentication header where the walk ended is not whole.
    pub const CUT: Marks = Marks(1 << 6);
    /// A whole packet of TCP or UDP without options and extension headers: its ports stand right behind its addresses.
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

/// The header at `at` needs `needed` bytes of which the frame has fewer.
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

/// What follows an authentication header at `at`, and where: its length counts words of 4 bytes, less two (RFC 4302,
/// section 2.2).
pub(crate) fn behind_authentication(frame: &[u8], at: usize) -> Option<(IpProtocol, usize)> {
    let [next, length] = array(frame, at)?;
    Some((IpProtocol(next), at + (usize::from(length) + 2) * 4))
}
