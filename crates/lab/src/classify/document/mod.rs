//! The document of `corelane lab classify`: how fast frames are classified by their addresses, and which choices decide
//! it.
//!
//! In: the raw trials. Out: `"schema": "corelane/classify/1"` as JSON, both ways, and the text
//! that a person reads ([`render`]). Medians, shares, choices and what stands beside the post's rows follow from the
//! plan and the raw trials alone ([`ClassifyReport::conclude`]).

mod choices;
mod conclude;
pub mod published;
mod setting;
mod step;
mod strides;

pub use choices::Choice;
pub use published::PublishedRow;
pub use setting::{LockKind, PrefetchKind, Setting, TableKind};
pub use step::{Step, ThreadTrial, Trial, Unknowns};
pub use strides::{HeaderTrial, Held, Stride};

use super::metrics::FRAMES;
use crate::document::{Head, document};
use corelane_host::cpus::CacheInfo;
use corelane_measure::statistics::Spread;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitTrial {
    /// The round, from 0.
    pub round: u32,
    /// The way of reading.
    pub way: String,
    /// Lines read per second of CPU time.
    pub lines_per_s: f64,
}

impl Limit {
    /// The limit as it was in a round; in a round without one, the median of all.
    #[must_use]
    pub fn in_round(&self, round: u32) -> Option<f64> {
        let own = self
            .trials
            .iter()
            .find(|trial| trial.round == round && Some(&trial.way) == self.way.as_ref());
        own.map(|trial| trial.lines_per_s)
            .or_else(|| self.lines_per_s_spread.map(|spread| spread.median))
    }

    /// Chooses the faster way.
    fn conclude(&mut self) {
        let mut ways: Vec<&str> = self.trials.iter().map(|trial| trial.way.as_str()).collect();
        ways.sort_unstable();
        ways.dedup();
        let spread = |way: &str| {
            let own = self.trials.iter().filter(|trial| trial.way == way);
            Spread::of(&own.map(|trial| trial.lines_per_s).collect::<Vec<_>>())
        };
        let fastest = ways
            .into_iter()
            .filter_map(|way| Some((way.to_owned(), spread(way)?)))
            .max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        (self.way, self.lines_per_s_spread) = fastest.unzip();
    }
}

/// The post's rows. They come from other hardware: context, not a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The post's title.
    pub title: String,
    /// The post's machine.
    pub other_hardware: String,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

impl Published {
    /// The rows, not yet beside any step.
    #[must_use]
    pub fn of_the_post() -> Self {
        Self {
            title: published::TITLE.to_owned(),
            other_hardware: published::MACHINE.to_owned(),
            rows: published::rows(),
        }
    }
}

impl ClassifyReport {
    /// Concludes from the trials so far.
    pub fn conclude(&mut self) {
        self.limit.conclude();
        self.limit_lines_per_s = self.limit.lines_per_s_spread.map(|spread| spread.median);
        for (place, step) in self.steps.iter_mut().enumerate() {
            let own: Vec<&Trial> = self.trials.iter().filter(|trial| trial.step == place).collect();
            step.conclude(&own, &self.limit, &self.unknowns);
        }
        strides::measure(&mut self.strides, &self.steps, &self.header_trials);
        self.published.rows = published::beside(&self.steps, self.plan.cpus.len());
        self.choices = choices::choices(self);
        self.conclusions = conclude::conclusions(self);
    }

    /// The step with the most frames per second among those wanted.
    #[must_use]
    pub fn fastest(&self, wanted: impl Fn(&Setting) -> bool) -> Option<&Step> {
        let rate = |step: &&Step| FRAMES.of(step).unwrap_or(0.0);
        let measured = self
            .steps
            .iter()
            .filter(|step| FRAMES.of(step).is_some() && wanted(&step.setting));
        measured.max_by(|one, other| rate(one).total_cmp(&rate(other)))
    }
}
