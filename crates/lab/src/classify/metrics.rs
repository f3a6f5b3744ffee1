//! The metrics of `lab classify`, each declared once.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::document::Trial;
use crate::steps::{number, share};
use corelane_measure::metric::{Better, Metric, Show};

type M = Metric<Trial>;

/// Every metric, in the order of columns.
pub static METRICS: &[&M] = &[
    &FRAMES,
    &LOOKUPS,
    &SHARE_OF_LIMIT,
    &CPU,
    &MEMORY_READ,
    &MEMORY_WRITTEN,
    &MISSES,
    &MATCHED,
];

pub static FRAMES: M = M::higher(
    "frames_per_s",
    "frames",
    Show::PerSecond,
    "Frames classified and forwarded per second, all threads together.",
    |trial| number(trial.frames_per_s()),
)
.spread("frames_per_s_spread")
.compared();

pub static LOOKUPS: M = M::higher(
    "lookups_per_s",
    "lookups",
    Show::PerSecond,
    "Addresses looked up per second, two for each frame, all threads together.",
    |trial| number(trial.lookups_per_s()),
)
.spread("lookups_per_s_spread");

pub static SHARE_OF_LIMIT: M = M::concluded(
    "share_of_limit",
    "limit",
    Show::Share,
    Better::Higher,
    "Lookups per second and thread, divided by the random lines per second of one thread, of the same round.",
)
.spread("share_of_limit_spread");

pub static CPU: M = M::new(
    "cpu_share",
    "CPU",
    Show::Share,
    Better::Neither,
    "CPU time over time, of all threads.",
    |trial| number(trial.cpu_share()),
);

pub static MEMORY_READ: M = M::lower(
    "mem_read_mb_s",
    "read",
    Show::Fixed(0),
    "Memory read, in millions of bytes per second.",
    |trial| number(trial.mb_s(trial.mem_read_bytes)),
)
.unit("MB/s");

pub static MEMORY_WRITTEN: M = M::lower(
    "mem_write_mb_s",
    "written",
    Show::Fixed(0),
    "Memory written, in millions of bytes per second.",
    |trial| number(trial.mb_s(trial.mem_write_bytes)),
)
.unit("MB/s");

pub static MISSES: M = M::lower(
    "cache_misses_per_lookup",
    "misses",
    Show::Fixed(2),
    "Misses of the last-level cache for each lookup.",
    |trial| number(trial.misses_per_lookup()),
)
.unit("/lookup");

pub static MATCHED: M = M::new(
    "matched_share",
    "matched",
    Show::Share,
    Better::Neither,
    "Share of the addresses that were found.",
    |trial| share(trial.matched()),
);
