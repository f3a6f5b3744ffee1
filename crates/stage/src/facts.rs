//! What is known of a frame, read once for all stages.

use corelane_packet::tunnel::Tunnel;
use corelane_packet::{Dissection, IpProtocol, Layout, Refusal};
use corelane_rss::Hash;
use std::ops::{BitOr, BitOrAssign};
use std::time::Instant;

/// What every stage may need to know of the frame at a place: half a cache line, written once for each frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Where its headers are; of no frame unless they were read, and not refused.
    pub(crate) layout: Layout,
    /// The hash that selected its bucket.
    pub(crate) hash: Option<Hash>,
    pub(crate) headers: Headers,
    /// The tunnels that it was taken out of, by a hash; 0: of none.
    pub(crate) tunnel: u32,
    /// Their number.
    pub(crate) depth: u8,
    /// Whether it is out of the tunnels that it is taken out of.
    pub(crate) unwrapped: bool,
    /// Whether it was dispatched to its bucket.
    pub(crate) dispatched: bool,
}

/// What is known of few frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rare {
    /// Its own time, if it has one.
    pub(crate) time: Option<Instant>,
    /// The identification of fragments that it may be cut into.
    pub(crate) cut_as: Option<u32>,
    /// How it was merged, if it was.
    pub(crate) merged: Option<Merged>,
}

/// How a frame that several TCP segments were merged into is cut again. Its IP header has neither options nor extension
/// headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of payload of each segment but the last, which may have fewer.
    pub segment_bytes: u16,
    /// Whether the identifications of IPv4 are equal, not consecutive.
    pub same_identification: bool,
}

/// Whether the headers of a frame were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Headers {
    /// Not since the frame came, was made or was changed.
    #[default]
    Unread,
    /// They were.
    Read,
    /// They were, and refused: [`Dissection::of`] says why.
    Refused,
}

impl Facts {
    /// Keeps what was read; returns what kinds of frames it is of.
    #[inline(always)]
    pub(crate) fn keep(&mut self, headers: Result<(Layout, Kinds), Refusal>) -> Kinds {
        match headers {
            Ok((layout, kinds)) => {
                (self.headers, self.layout) = (Headers::Read, layout);
                kinds
            }
            Err(refusal) => {
                self.headers = Headers::Refused;
                Kinds::of_refused(&refusal)
            }
        }
    }

    /// The headers of this frame.
    #[inline(always)]
    pub(crate) fn dissection<'frame>(&self, frame: &'frame [u8]) -> Result<Dissection<'frame>, Refusal> {
        match self.headers {
            Headers::Read => Ok(Dissection::again(frame, self.layout)),
            Headers::Unread | Headers::Refused => Dissection::of(frame),
        }
    }

    /// What stays known of a frame that was changed.
    #[inline(always)]
    pub(crate) fn of_changed(self) -> Facts {
        Facts {
            headers: Headers::Unread,
            hash: None,
            unwrapped: false,
            dispatched: false,
            ..self
        }
    }
}

/// Kinds of frames that stages work on. The union over a batch shows whether a stage has anything to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Fragments, and over IPv6 also whole datagrams with a fragment header.
    pub const FRAGMENT: Kinds = Kinds(1);
    /// What announces a tunnel, ESP and MPLS labels included, whatever follows.
    pub const TUNNEL: Kinds = Kinds(2);
    /// Whole segments of TCP.
    pub const TCP: Kinds = Kinds(4);
    /// Frames that several segments of TCP were merged into.
    pub const MERGED: Kinds = Kinds(8);
    /// Frames without an IP header that can be read.
    pub const REFUSED: Kinds = Kinds(16);

    /// Whether one of these is among them.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, any_of: Kinds) -> bool {
        self.0 & any_of.0 != 0
    }

    #[inline(always)]
    pub(crate) fn of(packet: &Dissection<'_>) -> Kinds {
        if packet.is_part() {
            return Kinds::FRAGMENT;
        }
        let whole = match packet.protocol() {
            IpProtocol::TCP => Kinds::TCP,
            _ if Tunnel::is_announced(packet) => Kinds::TUNNEL,
            _ => Kinds::default(),
        };
        match packet.is_fragment() {
            true if whole == Kinds::TUNNEL => Kinds::FRAGMENT | Kinds::TUNNEL,
            true => Kinds::FRAGMENT,
            false => whole,
        }
    }

    #[inline(always)]
    fn of_refused(refusal: &Refusal) -> Kinds {
        match refusal {
            Refusal::NotIp { ether_type } if ether_type.is_mpls() => Kinds::REFUSED | Kinds::TUNNEL,
            _ => Kinds::REFUSED,
        }
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    #[inline(always)]
    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

impl BitOrAssign for Kinds {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Kinds) {
        *self = *self | other;
    }
}
