//! Raw trials, and the steps computed from them.

use super::setting::Setting;
use corelane_measure::metric::{Measured, Values};
use corelane_measure::share::Share;
use corelane_measure::statistics::ratio;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measurement of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The step, by its place in `steps`.
    pub step: usize,
    /// The round, from 0.
    pub round: u32,
    /// The counts of each thread.
    pub threads: Vec<ThreadTrial>,
    /// Misses of the last-level cache during classification; `None` if the kernel does not count them.
    pub cache_misses: Option<u64>,
    /// Bytes read from memory by the whole machine during the trial, the frames' arrival included, as a device's would
    /// be; `None` if the memory controllers do not report it.
    pub mem_read_bytes: Option<u64>,
    /// Bytes written to memory, counted alike.
    pub mem_write_bytes: Option<u64>,
    /// Nanoseconds of the whole trial.
    pub elapsed_ns: u64,
    /// Why the trial has no result; `None` if it has one.
    pub why: Option<String>,
}

/// The counts of one thread in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTrial {
    /// Frames pulled, classified and forwarded.
    pub frames: u64,
    /// Addresses looked up: two per frame, if there is a table.
    pub lookups: u64,
    /// Addresses found.
    pub matched: u64,
    /// Frames that are no IPv4 and were forwarded without lookups.
    pub refused: u64,
    /// Time from each burst's being pulled to its being forwarded, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: u64,
    /// Part of that time in which the thread was ready but not running; 0 if the kernel does not report it
    /// (`/proc/thread-self/schedstat`).
    pub waited_ns: u64,
}

impl Trial {
    fn sum(&self, of: impl Fn(&ThreadTrial) -> u64) -> u64 {
        self.threads.iter().map(of).sum()
    }

    /// Frames per second of all threads together; time that others had a thread's CPU does not count.
    #[must_use]
    pub fn frames_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.frames)
    }

    /// Lookups per second, counted alike; `None` if nothing was looked up.
    #[must_use]
    pub fn lookups_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.lookups)
    }

    fn rate(&self, of: impl Fn(&ThreadTrial) -> u64) -> Option<f64> {
        let rate = |thread: &ThreadTrial| {
            let own = thread.wall_ns.saturating_sub(thread.waited_ns);
            (own > 0).then(|| of(thread) as f64 * 1e9 / own as f64)
        };
        let sum = self.threads.iter().map(rate).sum::<Option<f64>>()?;
        (self.why.is_none() && sum > 0.0).then_some(sum)
    }

    /// CPU time over time: below 1, the threads waited for a lock or for their CPU.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let (cpu_ns, wall_ns) = (
            self.sum(|thread| thread.cpu_ns),
            self.sum(|thread| thread.wall_ns),
        );
        ratio(cpu_ns as f64, wall_ns as f64).filter(|_| self.why.is_none())
    }

    /// Millions of bytes per second of the whole trial.
    pub(crate) fn mb_s(&self, bytes: Option<u64>) -> Option<f64> {
        ratio(bytes? as f64 * 1e3, self.elapsed_ns as f64)
    }

    pub(crate) fn misses_per_lookup(&self) -> Option<f64> {
        ratio(
            self.cache_misses? as f64,
            self.sum(|thread| thread.lookups) as f64,
        )
    }

    /// How many of the addresses were found; `None` if nothing was looked up.
    pub(crate) fn matched(&self) -> Option<Share> {
        let (hits, samples) = (
            self.sum(|thread| thread.matched),
            self.sum(|thread| thread.lookups),
        );
        (samples > 0).then_some(Share { hits, samples })
    }
}

/// One step: its setting and its results. Values are medians of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// Bytes of the pages that hold the table.
    pub page_size: Option<u64>,
    /// Bytes of the table.
    pub table_bytes: Option<u64>,
    /// Why a figure is null, by its name.
    pub unknown: BTreeMap<String, String>,
    /// Its metrics.
    #[serde(flatten)]
    pub values: Values,
}

impl Measured for Step {
    fn values(&self) -> &Values {
        &self.values
    }
}

/// Reasons for values that are unavailable in all steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknowns {
    /// Why memory traffic is unknown; `None` if it is known.
    pub memory_traffic: Option<String>,
    /// Why cache misses are unknown; `None` if they are known.
    pub cache_misses: Option<String>,
}

impl Step {
    /// A step that has no trials yet.
    #[must_use]
    pub fn planned(setting: Setting) -> Self {
        Self {
            setting,
            page_size: None,
            table_bytes: None,
            unknown: BTreeMap::new(),
            values: Values::default(),
        }
    }
}
