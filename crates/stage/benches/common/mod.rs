//! Rounds of a benchmark: CPU time per frame of batches in memory.

use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key, Toeplitz};
use corelane_stage::dispatch::{Dispatch, DispatchPlan, Spread, Workstreams};
use corelane_stage::{Context, StagePlans, TableStage, Verdict, Way, WayCounts};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Frames per batch, batches per round, and rounds.
pub const BATCH: usize = 32;
const BATCHES: usize = 2000;
pub const ROUNDS: usize = 51;

/// Hashes a packet by every field that it has.
#[inline(always)]
pub fn hash(packet: &Dissection<'_>, toeplitz: &Toeplitz) {
    let input = packet.rss_input(HashTypes::ALL).expect("every type is enabled");
    black_box(input.hash(toeplitz));
}

/// Stages by the sections of a file, with one bucket.
pub fn way(plans: &str) -> Way {
    let plans: StagePlans = toml::from_str(plans).expect("these are settings of stages");
    let context = Context {
        bucket: Bucket::new(0),
        buckets: 1,
        seed: 1,
        key: Key::VERIFICATION,
    };
    let spread = Spread {
        toeplitz: Toeplitz::new(&context.key),
        hash_types: HashTypes::ALL,
        table: IndirectionTable::round_robin(128, 1).expect("one bucket"),
        buckets: 1,
    };
    let streams = Arc::new(Workstreams::new(1, 256));
    let dispatch = Dispatch::new(
        context.bucket,
        &DispatchPlan::default(),
        Arc::new(spread),
        streams,
    );
    let tables = TableStage::new(Vec::new(), Verdict::Pass, Verdict::Pass, Arc::default());
    Way::new(&plans, &context, Some(dispatch), tables, &WayCounts::new(&plans))
}

/// Times a round of batches.
pub fn nanoseconds_a_frame(mut batch: impl FnMut()) -> f64 {
    let start = processor_time();
    (0..BATCHES).for_each(|_| batch());
    (processor_time() - start).as_nanos() as f64 / (BATCHES * BATCH) as f64
}

/// CPU time of this thread; unaffected by other processes.
fn processor_time() -> Duration {
    let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    clock.into()
}

pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
