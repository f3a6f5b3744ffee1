//! Where work on segments stands that is done in parts: the search for expired items, and the emptying of a segment.

/// A segment whose items were looked at rests for so many seconds at least, and at most: what has expired meanwhile is found later.
const REST: std::ops::RangeInclusive<u64> = 4..=64;
/// It rests for a part of the mean time that its items have left, so that each time it is looked at a part of them has expired.
const LIFETIMES_PER_REST: u64 = 8;

/// The search for expired items, in passes over all segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// The next segment to look at.
    pub(crate) segment: u32,
    /// Segments that are left of the pass.
    pub(crate) left: usize,
    /// The byte of the segment, if it was begun.
    pub(crate) position: Option<u32>,
    /// The segment's generation when it was begun.
    pub(crate) generation: u32,
    /// What its items have left.
    pub(crate) lifetimes: Lifetimes,
    /// The second in which a pass was completed.
    pub(crate) is_done_at: Option<u32>,
    /// Whether the pass looks at segments that rest, too.
    pub(crate) is_urgent: bool,
    /// The second in which such a pass was last wanted.
    pub(crate) urgent_at: Option<u32>,
}

/// The seconds that items have left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetimes {
    sum: u64,
    items: u64,
}

impl Lifetimes {
    /// Adds an item.
    pub(crate) fn add(&mut self, expiry: u32, now: u32) {
        if expiry > 0 {
            self.sum += u64::from(expiry.saturating_sub(now));
            self.items += 1;
        }
    }

    /// The seconds for which the segment of these items rests.
    pub(crate) fn rest(&self) -> u32 {
        let mean = self.sum / self.items.max(1);
        (mean / LIFETIMES_PER_REST).clamp(*REST.start(), *REST.end()) as u32
    }
}

/// Segments that are kept free, so that less memory is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Withheld {
    pub(crate) now: usize,
    /// How many it shall be.
    pub(crate) target: usize,
}

/// The segment that is being emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptying {
    pub(crate) number: u32,
    /// The next byte of it.
    pub(crate) position: usize,
    /// Whether it was sparse: all items are kept.
    pub(crate) is_sparse: bool,
}
