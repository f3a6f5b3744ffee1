//! The stages of a frame's way through a forwarder. In: batches of frames, and the time. Out: frames in the order in which
//! they leave, with counts of what was done.
//!
//! A [`Stage`] runs over the [`Work`] of one batch. It edits frames in place, begins or ends them elsewhere, drops them, takes
//! them to make others of them, and puts new frames where they belong. It does no I/O and reads no clock: the same frames
//! and times give the same result. One worker owns a stage, so that nothing is locked but the sequence numbers of ESP
//! associations, which all buckets must refuse once one has received them.
//!
//! The frames of a batch are lent for one call, in the memory of the link that received them. What a stage holds for
//! longer it copies.

#![forbid(unsafe_code)]

mod batch;
pub mod coalescing;
pub mod counts;
pub mod decapsulation;
pub mod dispatch;
pub mod encapsulation;
pub mod esp;
pub mod explain;
mod facts;
mod fate;
pub mod fragmenting;
mod planned;
pub mod reassembly;
mod seeds;
pub mod segmenting;
mod tables;
mod tcp;
mod way;
mod work;

pub use batch::Batch;
pub use facts::{Kinds, Merged};
pub use fate::Fate;
pub use planned::{Context, Listed, PlannedStage};
pub use tables::{OnMatch, Rule, RuleCounts, Search, Sides, TableCounts, TableStage, Verdict};
pub use way::{STAGES, StagePlans, Way, WayCounts, counted};
pub use work::{Carried, Desk, View, Work};

/// A stage of the frames' way.
pub trait Stage {
    /// Runs over the frames that go on ([`Work::goes_on`]). A batch without frames says that time went on: it comes when no
    /// link has frames, and at least every 20 ms.
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>);

    /// Gives up what the stage holds: no frame will come.
    fn end<B: Batch>(&mut self, _work: &mut Work<'_, B>) {}

    /// Takes over what another stage of the same kind holds, which may have had other settings, and runs in its place from now
    /// on.
    fn take_over(&mut self, _old: Self)
    where
        Self: Sized,
    {
    }
}

/// Two stages, one after the other.
impl<First: Stage, Second: Stage> Stage for (First, Second) {
    #[inline]
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.0.run(work);
        work.settle();
        self.1.run(work);
        work.settle();
    }

    fn end<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.0.end(work);
        work.settle();
        self.1.run(work);
        work.settle();
        self.1.end(work);
        work.settle();
    }
}

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
