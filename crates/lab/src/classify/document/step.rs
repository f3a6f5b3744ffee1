//! Trials as they were measured, and the steps that follow from them alone.

use super::Limit;
use super::setting::{Setting, TableKind};
use crate::classify::metrics::{METRICS, SHARE_OF_LIMIT};
use corelane_measure::metric::{Measured, Values};
use corelane_measure::share::Share;
use corelane_measure::statistics::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measurement of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The step, by its place in `steps`.
    pub step: usize,
    /// The round, from 0.
    pub round: u32,
    /// What each thread did.
    pub threads: Vec<ThreadTrial>,
    /// Misses of the last-level cache during classification; `None` where the kernel does not count them.
    pub cache_misses: Option<u64>,
    /// Bytes read from memory by the whole machine during the trial, the frames' arrival included, as a device's would be;
    /// `None` where the memory controllers do not tell.
    pub mem_read_bytes: Option<u64>,
    /// Bytes written to memory, counted alike.
    pub mem_write_bytes: Option<u64>,
    /// Nanoseconds of the whole trial.
    pub elapsed_ns: u64,
    /// Why it gives no figure; `None` when it does.
    pub why: Option<String>,
}

/// What one thread of a trial did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTrial {
    /// Frames pulled, classified and forwarded.
    pub frames: u64,
    /// Addresses looked up: two a frame, where there is a table.
    pub lookups: u64,
    /// Addresses found.
    pub matched: u64,
    /// Frames that are no IPv4 and were forwarded without lookups.
    pub refused: u64,
    /// Time from each burst's being pulled to its being forwarded, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: u64,
    /// Time within it that the thread was ready to run and others had its CPU; 0 where the kernel does not say
    /// (`/proc/thread-self/schedstat`).
    pub waited_ns: u64,
}

impl Trial {
    /// Frames a second of all threads together; time that others had a thread's CPU does not count.
    #[must_use]
    pub fn frames_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.frames)
    }

    /// Lookups a second, counted alike; `None` where nothing was looked up.
    #[must_use]
    pub fn lookups_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.lookups)
    }

    fn rate(&self, of: impl Fn(&ThreadTrial) -> u64) -> Option<f64> {
        let rate = |thread: &ThreadTrial| {
            let own = thread.wall_ns.saturating_sub(thread.waited_ns);
            (own > 0).then(|| of(thread) as f64 * 1e9 / own as f64)
        };
        let rates: Option<Vec<f64>> = self.threads.iter().map(rate).collect();
        let sum: f64 = rates?.iter().sum();
        (self.why.is_none() && sum > 0.0).then_some(sum)
    }

    /// CPU time over time: below 1, the threads waited for a lock or for their CPU.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        let sum = |of: fn(&ThreadTrial) -> u64| self.threads.iter().map(of).sum::<u64>() as f64;
        let share =
            corelane_measure::statistics::ratio(sum(|thread| thread.cpu_ns), sum(|thread| thread.wall_ns))?;
        self.why.is_none().then_some(share)
    }

    /// Millions of bytes a second of the whole trial.
    pub(crate) fn mb_s(&self, bytes: Option<u64>) -> Option<f64> {
        corelane_measure::statistics::ratio(bytes? as f64 * 1e3, self.elapsed_ns as f64)
    }

    pub(crate) fn misses_per_lookup(&self) -> Option<f64> {
        let lookups: u64 = self.threads.iter().map(|thread| thread.lookups).sum();
        corelane_measure::statistics::ratio(self.cache_misses? as f64, lookups as f64)
    }
}

impl Trial {
    /// How many of the addresses were found; `None` where nothing was looked up.
    pub(crate) fn matched(&self) -> Option<Share> {
        let sum = |of: fn(&ThreadTrial) -> u64| self.threads.iter().map(of).sum::<u64>();
        let (hits, samples) = (sum(|thread| thread.matched), sum(|thread| thread.lookups));
        (samples > 0).then_some(Share { hits, samples })
    }
}

/// One step: its setting and what its trials say. Figures are medians of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is measured with.
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

/// What holds for all steps: why the machine cannot say something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknowns {
    /// Why memory traffic is not told; `None` where it is.
    pub memory_traffic: Option<String>,
    /// Why cache misses are not told; `None` where they are.
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

    /// Draws the figures from this step's trials.
    pub(super) fn conclude(&mut self, trials: &[&Trial], limit: &Limit, unknowns: &Unknowns) {
        self.values.fill(METRICS, trials);
        let threads = self.setting.threads as f64;
        let share = |trial: &&Trial| Some(trial.lookups_per_s()? / threads / limit.in_round(trial.round)?);
        let shares: Vec<f64> = trials.iter().filter_map(share).collect();
        self.values.set_spread(&SHARE_OF_LIMIT, Spread::of(&shares));
        self.explain(trials, unknowns);
    }

    /// Says why each figure that is missing is.
    fn explain(&mut self, trials: &[&Trial], unknowns: &Unknowns) {
        self.unknown.clear();
        let failed = trials.iter().find_map(|trial| trial.why.clone());
        let none = failed.unwrap_or_else(|| "no trial was complete".to_owned());
        let no_table = self.setting.table == TableKind::None;
        let looked_up = if no_table {
            "nothing is looked up".to_owned()
        } else {
            none.clone()
        };
        let page = if no_table {
            "there is no table"
        } else {
            "the kernel does not say which pages hold the table"
        };
        let traffic = unknowns.memory_traffic.as_ref().unwrap_or(&none);
        let misses = unknowns.cache_misses.as_ref().unwrap_or(&looked_up);
        if self.page_size.is_none() {
            self.unknown.insert("page_size".to_owned(), page.to_owned());
        }
        for metric in METRICS.iter().filter(|metric| metric.of(&self.values).is_none()) {
            let why = match metric.name {
                "frames_per_s" | "cpu_share" => &none,
                "mem_read_mb_s" | "mem_write_mb_s" => traffic,
                "cache_misses_per_lookup" => misses,
                _ => &looked_up,
            };
            self.unknown.insert(metric.name.to_owned(), why.clone());
        }
    }
}
