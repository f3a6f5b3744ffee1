//! The stages of a frame's way. In: a batch of frames and the time. Out: a fate for each frame, and frames made of others.
//!
//! A stage does no I/O and reads no clock. The frames of a batch are lent for one call, in the memory of whoever received
//! them: a stage edits them in place, or copies what it holds for longer. A pair of stages is a stage: the second one runs
//! over the frames that go on after the first, and over those that the first made.

mod batch;
mod fate;
mod fates;
mod tables;

pub use batch::Batch;
pub use fate::{Cause, Fate, LinkSet};
pub use fates::{Fates, Made};
pub use tables::{OnMatch, Rule, RuleCounts, Search, Sides, TableCounts, TableStage, Verdict};

use std::mem;
use std::time::Instant;

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
