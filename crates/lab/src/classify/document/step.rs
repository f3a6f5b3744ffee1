//! A step of `lab classify`: its trials, what they are compared with, and its metrics, each declared once.

use super::setting::{Setting, TableKind};
use crate::trial::{TrialHead, number, share, trial};
use corelane_loops::pipeline::ThreadTrial;
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_measure::share::Share;
use corelane_measure::statistics::{Spread, ratio};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The limit that lookups are compared with: random reads of single cache lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Bytes of that memory: as many as the exact table takes.
    pub bytes: u64,
    /// Bytes of its pages.
    pub page_size: Option<u64>,
    /// The faster way of reading: `batches of 32`, which asks for a batch and then reads it, or `32 ahead`, which asks
    /// for one line as it reads another.
    pub way: Option<String>,
    /// The rounds of `limit_lines_per_s`.
    pub lines_per_s_spread: Option<Spread>,
    /// Every measurement.
    pub trials: Vec<LimitTrial>,
}

/// One measurement of the limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitTrial {
    /// Round and status; the step is its place in the schedule.
    #[serde(flatten)]
    pub head: TrialHead,
    /// The way of reading.
    pub way: String,
    /// Lines read per second of CPU time.
    pub lines_per_s: f64,
}

trial!(LimitTrial, named: way);

impl Limit {
    /// The valid measurements.
    fn results(&self) -> impl Iterator<Item = &LimitTrial> {
        self.trials.iter().filter(|trial| trial.head.is_result())
    }

    /// The limit as it was in a round; in a round without one, the median of all.
    pub(crate) fn in_round(&self, round: usize) -> Option<f64> {
        let own = self
            .results()
            .find(|trial| trial.head.round == round && Some(&trial.way) == self.way.as_ref());
        own.map(|trial| trial.lines_per_s)
            .or_else(|| self.lines_per_s_spread.map(|spread| spread.median))
    }

    /// Chooses the faster way.
    pub(super) fn conclude(&mut self) {
        let ways: BTreeSet<&str> = self.results().map(|trial| trial.way.as_str()).collect();
        let spread = |way: &str| {
            let own = self.results().filter(|trial| trial.way == way);
            Spread::of(&own.map(|trial| trial.lines_per_s).collect::<Vec<_>>())
        };
        let fastest = ways
            .into_iter()
            .filter_map(|way| Some((way.to_owned(), spread(way)?)))
            .max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        (self.way, self.lines_per_s_spread) = fastest.unzip();
    }
}

/// One measurement of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, by its place in `steps`, its round and status.
    #[serde(flatten)]
    pub head: TrialHead,
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
}

trial!(Trial);

impl Trial {
    fn sum(&self, of: impl Fn(&ThreadTrial) -> u64) -> u64 {
        Counters::sum(self.threads.iter().map(of))
    }

    /// Frames per second of all threads together; time that others had a thread's CPU does not count.
    pub(crate) fn frames_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.frames)
    }

    /// Lookups per second, counted alike; `None` if nothing was looked up.
    pub(crate) fn lookups_per_s(&self) -> Option<f64> {
        self.rate(|thread| thread.lookups)
    }

    fn rate(&self, of: impl Fn(&ThreadTrial) -> u64) -> Option<f64> {
        let rate = |thread: &ThreadTrial| {
            let own = thread.wall_ns.saturating_sub(thread.waited_ns);
            (own > 0).then(|| of(thread) as f64 * 1e9 / own as f64)
        };
        let sum = self.threads.iter().map(rate).sum::<Option<f64>>()?;
        (self.head.is_result() && sum > 0.0).then_some(sum)
    }

    /// Millions of bytes per second of the whole trial.
    pub(crate) fn mb_s(&self, bytes: Option<u64>) -> Option<f64> {
        ratio(bytes? as f64 * 1e3, self.elapsed_ns as f64)
    }

    fn lookups(&self) -> u64 {
        self.sum(|thread| thread.lookups)
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

    /// Draws the figures from this step's trials.
    pub(super) fn conclude(&mut self, trials: &[&Trial], limit: &Limit, unknowns: &Unknowns) {
        self.values.fill(METRICS, trials);
        let threads = self.setting.threads as f64;
        let share =
            |trial: &&Trial| Some(trial.lookups_per_s()? / threads / limit.in_round(trial.head.round)?);
        let shares: Vec<f64> = trials.iter().filter_map(share).collect();
        self.values.set_spread(&SHARE_OF_LIMIT, Spread::of(&shares));
        self.explain(trials, unknowns);
    }

    /// Says why each figure that is missing is.
    fn explain(&mut self, trials: &[&Trial], unknowns: &Unknowns) {
        self.unknown.clear();
        let failed = trials.iter().find_map(|trial| trial.head.why.as_deref());
        let none = failed.unwrap_or("no trial was complete");
        let (looked_up, page) = match self.setting.table {
            TableKind::None => ("nothing is looked up", "there is no table"),
            _ => (none, "the kernel does not say which pages hold the table"),
        };
        let traffic = unknowns.memory_traffic.as_deref().unwrap_or(none);
        let misses = unknowns.cache_misses.as_deref().unwrap_or(looked_up);
        if self.page_size.is_none() {
            self.unknown.insert("page_size".to_owned(), page.to_owned());
        }
        for metric in METRICS.iter().filter(|metric| metric.of(&self.values).is_none()) {
            let why = match metric.name {
                "frames_per_s" | "cpu_share" => none,
                "mem_read_mb_s" | "mem_write_mb_s" => traffic,
                "cache_misses_per_lookup" => misses,
                _ => looked_up,
            };
            self.unknown.insert(metric.name.to_owned(), why.to_owned());
        }
    }
}

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

pub static FRAMES: M = M::more("frames_per_s", "frames", Show::PerSecond)
    .about("Frames classified and forwarded per second, all threads together.")
    .read(|trial| number(trial.frames_per_s()))
    .spread("frames_per_s_spread")
    .compared();

pub static LOOKUPS: M = M::more("lookups_per_s", "lookups", Show::PerSecond)
    .about("Addresses looked up per second, two for each frame, all threads together.")
    .read(|trial| number(trial.lookups_per_s()))
    .spread("lookups_per_s_spread");

pub static SHARE_OF_LIMIT: M = M::more("share_of_limit", "limit", Show::Share)
    .about("Lookups per second and thread, divided by the random lines per second of one thread, of the same round.")
    .spread("share_of_limit_spread").unbounded();

pub static CPU: M = M::explaining("cpu_share", "CPU", Show::Share)
    .unbounded()
    .about("CPU time over time, of all threads.")
    // Below 1, the threads waited for a lock or for their CPU.
    .read(|trial| {
        let [cpu_ns, wall_ns] = [
            trial.sum(|thread| thread.cpu_ns),
            trial.sum(|thread| thread.wall_ns),
        ];
        number(ratio(cpu_ns as f64, wall_ns as f64).filter(|_| trial.head.is_result()))
    });

pub static MEMORY_READ: M = M::less("mem_read_mb_s", "read", Show::Fixed(0))
    .about("Memory read, in millions of bytes per second.")
    .read(|trial| number(trial.mb_s(trial.mem_read_bytes)))
    .unit("MB/s");

pub static MEMORY_WRITTEN: M = M::less("mem_write_mb_s", "written", Show::Fixed(0))
    .about("Memory written, in millions of bytes per second.")
    .read(|trial| number(trial.mb_s(trial.mem_write_bytes)))
    .unit("MB/s");

pub static MISSES: M = M::less("cache_misses_per_lookup", "misses", Show::Fixed(2))
    .about("Misses of the last-level cache for each lookup.")
    .read(|trial| number(ratio(trial.cache_misses? as f64, trial.lookups() as f64)))
    .unit("/lookup");

pub static MATCHED: M = M::explaining("matched_share", "matched", Show::Share)
    .about("Share of the addresses that were found.")
    .read(|trial| {
        let (hits, samples) = (trial.sum(|thread| thread.matched), trial.lookups());
        share(Some(Share { hits, samples }))
    });
