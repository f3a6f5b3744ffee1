//! Trials as they were measured, and the steps that follow from them alone.

use super::Limit;
use super::setting::{Setting, TableKind};
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
    fn mb_s(&self, bytes: Option<u64>) -> Option<f64> {
        corelane_measure::statistics::ratio(bytes? as f64 * 1e3, self.elapsed_ns as f64)
    }

    fn misses_per_lookup(&self) -> Option<f64> {
        let lookups: u64 = self.threads.iter().map(|thread| thread.lookups).sum();
        corelane_measure::statistics::ratio(self.cache_misses? as f64, lookups as f64)
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
    /// Addresses looked up a second, two a frame, all threads together.
    pub lookups_per_s: Option<f64>,
    /// Frames classified and forwarded a second, all threads together.
    pub frames_per_s: Option<f64>,
    /// Lookups a second and thread over the random lines a second that one thread reads here, of the same round.
    pub share_of_limit: Option<f64>,
    /// Memory read, in millions of bytes a second.
    pub mem_read_mb_s: Option<f64>,
    /// Memory written, in millions of bytes a second.
    pub mem_write_mb_s: Option<f64>,
    /// Misses of the last-level cache a lookup.
    pub cache_misses_per_lookup: Option<f64>,
    /// CPU time over time, of all threads.
    pub cpu_share: Option<f64>,
    /// Share of the addresses that were found.
    pub matched_share: Option<f64>,
    /// The rounds of `frames_per_s`.
    pub frames_per_s_spread: Option<Spread>,
    /// The rounds of `lookups_per_s`.
    pub lookups_per_s_spread: Option<Spread>,
    /// The rounds of `share_of_limit`.
    pub share_of_limit_spread: Option<Spread>,
    /// Why a figure is null, by its name.
    pub unknown: BTreeMap<String, String>,
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
            lookups_per_s: None,
            frames_per_s: None,
            share_of_limit: None,
            mem_read_mb_s: None,
            mem_write_mb_s: None,
            cache_misses_per_lookup: None,
            cpu_share: None,
            matched_share: None,
            frames_per_s_spread: None,
            lookups_per_s_spread: None,
            share_of_limit_spread: None,
            unknown: BTreeMap::new(),
        }
    }

    /// Draws the figures from this step's trials.
    pub(super) fn conclude(&mut self, trials: &[&Trial], limit: &Limit, unknowns: &Unknowns) {
        let each = |of: &dyn Fn(&Trial) -> Option<f64>| {
            let values: Vec<f64> = trials.iter().filter_map(|trial| of(trial)).collect();
            Spread::of(&values)
        };
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        let threads = self.setting.threads as f64;
        self.frames_per_s_spread = each(&Trial::frames_per_s);
        self.lookups_per_s_spread = each(&Trial::lookups_per_s);
        self.share_of_limit_spread =
            each(&|trial| Some(trial.lookups_per_s()? / threads / limit.in_round(trial.round)?));
        self.frames_per_s = median(self.frames_per_s_spread);
        self.lookups_per_s = median(self.lookups_per_s_spread);
        self.share_of_limit = median(self.share_of_limit_spread);
        self.cpu_share = median(each(&Trial::cpu_share));
        self.mem_read_mb_s = median(each(&|trial| trial.mb_s(trial.mem_read_bytes)));
        self.mem_write_mb_s = median(each(&|trial| trial.mb_s(trial.mem_write_bytes)));
        self.cache_misses_per_lookup = median(each(&Trial::misses_per_lookup));
        let sum = |of: fn(&ThreadTrial) -> u64| {
            let threads = trials.iter().flat_map(|trial| &trial.threads);
            threads.map(of).sum::<u64>() as f64
        };
        self.matched_share =
            corelane_measure::statistics::ratio(sum(|thread| thread.matched), sum(|thread| thread.lookups));
        self.explain(trials, unknowns);
    }

    /// Says why each figure that is missing is.
    fn explain(&mut self, trials: &[&Trial], unknowns: &Unknowns) {
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
        let figures = [
            ("page_size", self.page_size.is_some(), page),
            ("frames_per_s", self.frames_per_s.is_some(), none.as_str()),
            ("lookups_per_s", self.lookups_per_s.is_some(), looked_up.as_str()),
            (
                "share_of_limit",
                self.share_of_limit.is_some(),
                looked_up.as_str(),
            ),
            ("cpu_share", self.cpu_share.is_some(), none.as_str()),
            ("mem_read_mb_s", self.mem_read_mb_s.is_some(), traffic),
            ("mem_write_mb_s", self.mem_write_mb_s.is_some(), traffic),
            (
                "cache_misses_per_lookup",
                self.cache_misses_per_lookup.is_some(),
                misses,
            ),
        ];
        self.unknown = figures
            .into_iter()
            .filter(|(_, known, _)| !known)
            .map(|(name, _, why)| (name.to_owned(), why.to_owned()))
            .collect();
    }
}
