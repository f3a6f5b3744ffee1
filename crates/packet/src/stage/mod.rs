//! The stages of a frame's way. In: a batch of frames and the time. Out: a fate for each frame, and frames made of others.
//!
//! A stage does no I/O and reads no clock. The frames of a batch are lent for one call, in the memory of whoever received
//! them: a stage edits them in place, or copies what it holds for longer. A pair of stages is a stage: the second one runs
//! over the frames that go on after the first, and over those that the first made.

mod fates;
mod tables;

pub use fates::{Fates, Made};
pub use tables::{OnMatch, Rule, RuleCounts, Search, Sides, TableCounts, TableStage, Verdict};

use corelane_measure::words;
use corelane_rss::Bucket;
use corelane_table::prefetch;
use serde::{Deserialize, Serialize};
use std::mem;
use std::ops::BitOr;
use std::time::Instant;

/// Frames in arrival order, lent to a stage. Methods panic for numbers beyond the last frame, as slices do.
pub trait Batch {
    /// The number of frames.
    fn frames(&self) -> usize;

    /// One frame.
    fn frame(&self, number: usize) -> &[u8];

    /// One frame, mutable in place.
    fn frame_mut(&mut self, number: usize) -> &mut [u8];

    /// The index of the link that the frame came from.
    fn link(&self, number: usize) -> usize;

    /// Prefetches the first cache line of a frame, which holds its headers. Numbers beyond the last frame are ignored.
    #[inline(always)]
    fn prefetch(&self, number: usize) {
        if number < self.frames()
            && let Some(first) = self.frame(number).first()
        {
            prefetch(first);
        }
    }
}

/// Gives each frame of a batch a fate.
pub trait Stage {
    /// Runs over the frames that go on ([`Fates::goes_on`]). A batch without frames says that time went on: it comes when
    /// no link has frames, at least every 20 ms.
    fn run<B: Batch>(&mut self, batch: &mut B, now: Instant, fates: &mut Fates);
}

impl<A: Stage, B: Stage> Stage for (A, B) {
    #[inline]
    fn run<Frames: Batch>(&mut self, batch: &mut Frames, now: Instant, fates: &mut Fates) {
        self.0.run(batch, now, fates);
        let mut made = mem::take(&mut fates.made);
        self.1.run(batch, now, fates);
        if made.frames() > 0 {
            let mut further = Fates::of(mem::take(&mut made.fates));
            self.1.run(&mut made, now, &mut further);
            made.fates = further.fates;
            made.append(further.made);
        }
        made.append(mem::take(&mut fates.made));
        fates.made = made;
    }
}

/// What becomes of a frame.
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
