//! Reassembly: what is made of fragments, and what hostile ones cost.

pub mod frames;
mod hostile;
mod kernel;
mod overlaps;
mod owner;
mod plans;
mod real_sockets;
mod rules;
mod tshark;

use crate::common::Runner;
use corelane_measure::counter::Counter;
use corelane_stage::reassembly::{Counts, Plan, Reassembly};
use std::sync::Arc;

/// A reassembly, and its counts.
pub struct Bench {
    pub runner: Runner<Reassembly>,
    pub counts: Arc<Counts>,
}

impl Bench {
    pub fn new(plan: Plan) -> Bench {
        let counts = Arc::new(Counts::default());
        let stage = Reassembly::new(plan, 7, Arc::clone(&counts));
        Bench {
            runner: Runner::new(stage),
            counts,
        }
    }

    /// The frames that leave. Every fragment is in one count, and no limit is exceeded.
    pub fn run(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let left = self.runner.run(frames);
        assert_eq!(self.unaccounted(), 0, "{:?}", self.counts);
        left
    }

    /// Fragments that no count has.
    fn unaccounted(&self) -> u64 {
        let counts = &self.counts;
        let causes: u64 = causes(counts).map(|(_, count)| count.get()).iter().sum();
        counts.fragments.get() - counts.made_whole.get() - causes - counts.waiting.get()
    }

    /// The counts of what was dropped that are not 0.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        let counts = causes(&self.counts).map(|(name, count)| (name, count.get()));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// The counts of what was dropped, by name.
fn causes(counts: &Counts) -> [(&'static str, &Counter); 16] {
    [
        ("duplicate", &counts.duplicate),
        ("overlap", &counts.overlap),
        ("contradicts_end", &counts.contradicts_end),
        ("empty", &counts.empty),
        ("unaligned", &counts.unaligned),
        ("truncated", &counts.truncated),
        ("checksum", &counts.checksum),
        ("tiny_first", &counts.tiny_first),
        ("too_long", &counts.too_long),
        ("nested", &counts.nested),
        ("ecn", &counts.ecn),
        ("timeout", &counts.timeout),
        ("no_memory", &counts.no_memory),
        ("too_many_datagrams", &counts.too_many_datagrams),
        ("too_many_fragments", &counts.too_many_fragments),
        ("ended", &counts.ended),
    ]
}
