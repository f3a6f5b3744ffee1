//! The fate of one frame: what the forwarder does with it.

use corelane_measure::words;
use corelane_rss::Bucket;
use serde::{Deserialize, Serialize};
use std::ops::BitOr;

/// What the forwarder does with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, to all links but the one that it came from.
    #[default]
    Flood,
    /// It goes on, to these links.
    Forward(LinkSet),
    /// It is dropped.
    Drop(Cause),
    /// The stage holds a copy. Later it makes a frame of it, also if that is to be dropped, so that it is counted.
    Held,
    /// Frames that the stage made take its place ([`Fates::make`]): other bytes, several frames, or one frame for several.
    Replaced,
    /// It goes to the worker of this bucket, whose stages run over it.
    HandOver(Bucket),
}

/// Why a stage dropped a frame. Each cause is counted under its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A table that drops what matches has an address of the frame.
    Table,
    /// No table decided on it.
    Otherwise,
    /// It has no readable IP header.
    NotIp,
}

words!(Cause);

/// A set of links, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSet(u32);

impl LinkSet {
    /// The set of this link.
    ///
    /// # Panics
    /// If the index is not below 32.
    #[must_use]
    pub const fn one(link: usize) -> LinkSet {
        assert!(link < u32::BITS as usize);
        LinkSet(1 << link)
    }

    /// Whether the link is one of the set.
    #[must_use]
    #[inline(always)]
    pub const fn contains(self, link: usize) -> bool {
        link < u32::BITS as usize && self.0 >> link & 1 == 1
    }
}

impl BitOr for LinkSet {
    type Output = LinkSet;

    fn bitor(self, other: LinkSet) -> LinkSet {
        LinkSet(self.0 | other.0)
    }
}
