//! The document of `corelane lab classify`: how fast frames are classified by their addresses, and which choices decide
//! it.
//!
//! In: the raw trials. Out: `"schema": "corelane/classify/1"` as JSON, both ways, and the text
//! that a person reads ([`render`]). Medians, shares, choices and what stands beside the post's rows follow from the
//! plan and the raw trials alone ([`ClassifyReport::conclude`]).

#![allow(missing_docs, reason = "each declaration says what it is")]

mod choices;
pub mod published;
mod setting;
mod step;
mod strides;

pub use choices::Choice;
pub use published::{Published, PublishedRow};
pub use setting::{LockKind, PrefetchKind, Setting, TableKind};
pub use step::{
    CPU, FRAMES, LOOKUPS, Limit, LimitTrial, MATCHED, MEMORY_READ, MEMORY_WRITTEN, METRICS, MISSES,
    SHARE_OF_LIMIT, Step, Trial, Unknowns,
};
pub use strides::{HeaderTrial, Held, Stride};

use crate::document::{Head, document};
use choices::Compared;
use corelane_host::cpus::CacheInfo;
use corelane_measure::quantity::{self, or_missing};
use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/classify/1";

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassifyReport {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// The plan.
    pub plan: Plan,
    /// Random lines that one thread reads in a second, of the faster way: see `limit`.
    pub limit_lines_per_s: Option<f64>,
    /// Details of the limit's measurement.
    pub limit: Limit,
    /// The data caches of the first CPU, from the core outwards.
    pub caches: Vec<CacheInfo>,
    /// Prediction and measurement of each stride.
    pub strides: Vec<Stride>,
    /// Every step, in the order of the plan.
    pub steps: Vec<Step>,
    /// Every row of the post, beside the step that repeats it.
    pub published: Published,
    /// The effect of each choice, largest difference first.
    pub choices: Vec<Choice>,
    /// Values unavailable on this machine, for all steps.
    pub unknowns: Unknowns,
    /// The conclusion, one sentence per entry.
    pub conclusions: Vec<String>,
    /// Every measurement of a step.
    pub trials: Vec<Trial>,
    /// Every measurement of how far headers are.
    pub header_trials: Vec<HeaderTrial>,
}

document!(ClassifyReport, [SCHEMA]);

/// The plan, besides the steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Rounds; every step is measured once in each, in an order drawn anew.
    pub rounds: u32,
    /// Seconds of one trial.
    pub duration_s: f64,
    /// Frames per burst.
    pub burst: usize,
    /// Frame buffers of each thread's receive ring; the transmit ring has as many.
    pub ring: usize,
    /// Bytes of a frame.
    pub frame_bytes: usize,
    /// Addresses in the full tables.
    pub entries: u64,
    /// Share of the looked up addresses that are in the full tables.
    pub present_share: f64,
    /// CPUs of the threads, in their order.
    pub cpus: Vec<u32>,
    /// Seed of addresses and of the order within each round.
    pub seed: u64,
}

impl ClassifyReport {
    /// Concludes from the trials so far.
    pub fn conclude(&mut self) {
        self.limit.conclude();
        self.limit_lines_per_s = self.limit.lines_per_s_spread.map(|spread| spread.median);
        for (place, step) in self.steps.iter_mut().enumerate() {
            let own: Vec<&Trial> = self
                .trials
                .iter()
                .filter(|trial| trial.head.step == place)
                .collect();
            step.conclude(&own, &self.limit, &self.unknowns);
        }
        strides::measure(&mut self.strides, &self.steps, &self.header_trials);
        self.published = published::beside(&self.steps, self.plan.cpus.len());
        self.choices = self.compared().choices();
        self.conclusions = conclusions(self);
    }

    /// The step with the most frames per second among those wanted.
    pub(crate) fn fastest(&self, wanted: impl Fn(&Setting) -> bool) -> Option<&Step> {
        Some(&self.steps[self.compared().best(wanted)?])
    }

    fn compared(&self) -> Compared<'_> {
        Compared {
            burst: self.plan.burst,
            steps: &self.steps,
            trials: &self.trials,
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
    sentences
}
