//! What is known of a frame, read once for all stages.

use corelane_packet::tunnel::Tunnel;
use corelane_packet::{Dissection, IpProtocol, Layout, Refusal};
use corelane_rss::Hash;
use std::ops::{BitOr, BitOrAssign};
use std::time::Instant;

/// What is known of the frame at a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) headers: Headers,
    /// The hash that selected its bucket.
    pub(crate) hash: Option<Hash>,
    /// Its own time, if it has one.
    pub(crate) time: Option<Instant>,
    /// Tunnels that it was taken out of.
    pub(crate) depth: u8,
    /// Whether it stays in the tunnel that it is in.
    pub(crate) stays: bool,
    /// The identification of fragments that it may be cut into.
    pub(crate) cut_as: Option<u32>,
    /// Whether it was handed over to its bucket.
    pub(crate) queued: bool,
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

/// The headers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Headers {
    /// Not read since the frame came or was made.
    #[default]
    Unread,
    /// Read.
    Read(Layout),
    /// Read, and refused: [`Dissection::of`] says why.
    Refused,
}

impl Headers {
    /// Reads the headers of a frame; returns what kinds of frames it is of.
    #[inline(always)]
    pub(crate) fn read(&mut self, frame: &[u8]) -> Kinds {
        match Dissection::of(frame) {
            Ok(dissection) => {
                *self = Headers::Read(dissection.layout());
                Kinds::of(&dissection)
            }
            Err(refusal) => {
                *self = Headers::Refused;
                Kinds::of_refused(&refusal)
            }
        }
    }
}

/// Kinds of frames that stages work on. The union over a batch shows whether a stage has anything to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Fragments, and over IPv6 also whole datagrams with a fragment header.
    pub const FRAGMENT: Kinds = Kinds(1);
    /// Tunnels, ESP and MPLS labels included, with an intact header or not.
    pub const TUNNEL: Kinds = Kinds(2);
    /// Whole segments of TCP.
    pub const TCP: Kinds = Kinds(4);
    /// Frames that several segments of TCP were merged into.
    pub const MERGED: Kinds = Kinds(8);

    /// Whether one of these is among them.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, any_of: Kinds) -> bool {
        self.0 & any_of.0 != 0
    }

    #[inline(always)]
    fn of(dissection: &Dissection<'_>) -> Kinds {
        if dissection.is_fragment() {
            return Kinds::FRAGMENT;
        }
        match dissection.protocol() {
            IpProtocol::TCP => Kinds::TCP,
            _ if Tunnel::of(dissection).is_some() => Kinds::TUNNEL,
            _ => Kinds::default(),
        }
    }

    #[inline(always)]
    fn of_refused(refusal: &Refusal) -> Kinds {
        match refusal {
            Refusal::NotIp { ether_type } if ether_type.is_mpls() => Kinds::TUNNEL,
            _ => Kinds::default(),
        }
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

impl BitOrAssign for Kinds {
    fn bitor_assign(&mut self, other: Kinds) {
        *self = *self | other;
    }
}
