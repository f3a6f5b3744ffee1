//! From raw trials to steps, beyond what the metrics' declarations say, and the conclusion in words.

use super::{Choice, ClassifyReport, Limit, Step, TableKind, Trial, Unknowns};
use crate::classify::metrics::{FRAMES, METRICS, SHARE_OF_LIMIT};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics::Spread;

impl Step {
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
        let failed = trials.iter().find_map(|trial| trial.why.as_deref());
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

/// The conclusion, a sentence each: what mattered and what did not, the fastest table and its share of the limit.
pub(super) fn conclusions(report: &ClassifyReport) -> Vec<String> {
    let (mattered, not): (Vec<&Choice>, Vec<&Choice>) =
        report.choices.iter().partition(|choice| choice.mattered);
    let times = |choice: &Choice| choice.ratio.display(2);
    let sentence = |choice: &Choice| format!("{} times: {}.", times(choice), choice.words);
    let mut sentences: Vec<String> = mattered.into_iter().map(sentence).collect();
    if !not.is_empty() {
        let words = not
            .into_iter()
            .map(|choice| format!("{} ({}x)", choice.words, times(choice)));
        let words: Vec<String> = words.collect();
        sentences.push(format!("Made no clear difference here: {}.", words.join("; ")));
    }
    if let Some(step) = report.fastest(|setting| setting.entries > 0) {
        let share = or_missing(SHARE_OF_LIMIT.of(step), quantity::percent);
        sentences.push(format!(
            "Fastest with a full table: {} frames/s ({}), {share} of this machine\u{2019}s random lines/s \
             per thread.",
            or_missing(FRAMES.of(step), quantity::metric),
            step.setting
        ));
    }
    if report.head.interrupted {
        sentences
            .push("The run was ended early: what it says rests on the trials that were complete.".to_owned());
    }
    sentences
}
