//! What the forwarder does with a frame.

use crate::dispatch::Protocol;
use corelane_rss::Bucket;
use std::ops::BitOr;

/// What the forwarder does with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, to all links but the one that it came from.
    #[default]
    Flood,
    /// It goes on, to these links.
    Forward(LinkSet),
    /// It is put into the queue of this bucket and protocol.
    HandOver(Bucket, Protocol),
    /// Nothing: it was dropped, or used for a frame that left or will leave.
    Gone,
}

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
