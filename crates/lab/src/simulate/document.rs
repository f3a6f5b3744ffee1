//! The document of `corelane lab simulate`: how evenly RSS spreads flows over buckets, and what rebalancing would gain.
//!
//! Loads are counted in datagrams, exactly; every other number follows from them. Steps are filled from raw trials by
//! [`Step::of`].

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::Request;
use crate::document::{Head, document};
use crate::trial::{TrialHead, number, trial};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_measure::statistics::ratio;
use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/simulate/1";

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulateReport {
    /// What all documents begin with; a simulation has no bed and depends on no condition of the machine.
    #[serde(flatten)]
    pub head: Head,
    /// What was simulated.
    pub plan: Plan,
    /// Medians and ranges over the rounds, by table size, then by buckets.
    pub steps: Vec<Step>,
    /// Every trial as it was counted.
    pub trials: Vec<Trial>,
    /// The flows of the first round, if requested: what a real run has to send for the same buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// Sentences, the last line of the text last.
    pub conclusions: Vec<String>,
}

document!(SimulateReport, [SCHEMA]);

/// What was simulated: with the version of the program, all that it takes to repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// Table sizes and numbers of buckets that make no step, because buckets would have no entry.
    pub left_out: Vec<LeftOut>,
}

/// A table size and a number of buckets that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Entries of the table.
    pub table_size: usize,
    /// More buckets than that.
    pub buckets: usize,
}

/// A flow of the first round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The client, as ADDRESS:PORT.
    pub source: String,
    /// The server, as ADDRESS:PORT.
    pub destination: String,
    /// Datagrams that it sends.
    pub datagrams: u64,
    /// Its Toeplitz hash, in hexadecimal after `0x`. Its entry is the hash modulo the table's size.
    pub hash: String,
}

/// One round of one step as it was counted. Datagrams are those of the fullest bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status. No time is measured.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Entries of the table.
    pub table_size: usize,
    /// Buckets.
    pub buckets: usize,
    /// Datagrams of all flows; 0 where an earlier version did not write them.
    #[serde(default)]
    pub datagrams: u64,
    /// With the table that drivers start with: the buckets in turn.
    pub fullest_datagrams: u64,
    /// With the same table, had each flow fallen on an entry drawn at random: an ideal hash.
    pub random_fullest_datagrams: u64,
    /// With the rebalanced table.
    pub rebalanced_fullest_datagrams: u64,
    /// Entries that rebalancing moved.
    pub moves: usize,
    /// No table that sends whole entries to buckets can have less.
    pub least_fullest_datagrams: u64,
    /// Datagrams of the largest flow: nothing that keeps a flow on one bucket can have less.
    pub largest_flow_datagrams: u64,
}

trial!(Trial);

impl Trial {
    /// So many datagrams over the mean of the buckets.
    pub(super) fn over_mean(&self, datagrams: u64) -> Option<f64> {
        ratio(datagrams as f64, self.datagrams as f64 / self.buckets as f64)
    }

    /// What the buckets carry together when one of so many datagrams is busy, as a share of what they could.
    pub(super) fn of_ideal(&self, datagrams: u64) -> Option<f64> {
        ratio(self.datagrams as f64 / self.buckets as f64, datagrams as f64)
    }
}

/// A table size and a number of buckets, over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Entries of the table.
    pub table_size: usize,
    /// Buckets.
    pub buckets: usize,
    /// The buckets in the first round.
    pub per_bucket: Vec<PerBucket>,
    /// Its metrics.
    #[serde(flatten)]
    pub values: Values,
}

impl Measured for Step {
    fn values(&self) -> &Values {
        &self.values
    }
}

/// A bucket in the first round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerBucket {
    /// Its number.
    pub bucket: usize,
    /// Entries of the table that name it.
    pub entries: usize,
    /// Flows that fall on it.
    pub flows: usize,
    /// Datagrams that fall on it.
    pub datagrams: u64,
    /// The same as a share of all.
    pub share: f64,
    /// Datagrams that fall on it with the rebalanced table.
    pub rebalanced_datagrams: u64,
}

type M = Metric<Trial>;

/// Every metric, in the order of columns.
pub static METRICS: &[&M] = &[
    &IMBALANCE,
    &RANDOM_IMBALANCE,
    &THROUGHPUT_SHARE,
    &REBALANCED_IMBALANCE,
    &REBALANCED_SHARE,
    &MOVES,
    &LEAST_IMBALANCE,
    &LARGEST_FLOW,
];

const fn over_mean(name: &'static str, header: &'static str) -> M {
    M::less(name, header, Show::Fixed(2)).unit("/mean").spread(name)
}

pub static IMBALANCE: M = over_mean("imbalance", "fullest")
    .about("Load of the fullest bucket over the mean, with the table that drivers start with.")
    .read(|trial| number(trial.over_mean(trial.fullest_datagrams)));

pub static RANDOM_IMBALANCE: M = over_mean("random_imbalance", "random")
    .about("The same with an ideal hash.")
    .read(|trial| number(trial.over_mean(trial.random_fullest_datagrams)));

pub static THROUGHPUT_SHARE: M = M::more("throughput_share", "of ideal", Show::Share)
    .about("What the buckets carry together when the fullest is busy.")
    .read(|trial| number(trial.of_ideal(trial.fullest_datagrams)))
    .spread("throughput_share");

pub static REBALANCED_IMBALANCE: M = over_mean("rebalanced_imbalance", "rebalanced")
    .about("Load of the fullest bucket over the mean with the rebalanced table.")
    .read(|trial| number(trial.over_mean(trial.rebalanced_fullest_datagrams)));

pub static REBALANCED_SHARE: M = M::more("rebalanced_throughput_share", "of ideal", Show::Share)
    .about("What the buckets carry together with the rebalanced table.")
    .read(|trial| number(trial.of_ideal(trial.rebalanced_fullest_datagrams)))
    .spread("rebalanced_throughput_share");

pub static MOVES: M = M::explaining("moves", "moves", Show::Fixed(0))
    .about("Entries that rebalancing moved.")
    .read(|trial| number(Some(trial.moves as f64)))
    .spread("moves");

pub static LEAST_IMBALANCE: M = over_mean("least_imbalance", "least")
    .about("A lower bound of the imbalance of all tables that send whole entries to buckets.")
    .read(|trial| number(trial.over_mean(trial.least_fullest_datagrams)));

pub static LARGEST_FLOW: M = over_mean("largest_flow_imbalance", "flow")
    .about("The largest flow over the mean of the buckets; above 1 nothing that keeps a flow on one bucket can be level.")
    .read(|trial| number(trial.over_mean(trial.largest_flow_datagrams)));

impl Step {
    /// The step of these trials, which are all of one table size and number of buckets. `None` without a trial.
    #[must_use]
    pub fn of(trials: &[&Trial], per_bucket: Vec<PerBucket>) -> Option<Self> {
        let first = trials.first()?;
        let mut values = Values::default();
        values.fill(METRICS, trials);
        Some(Self {
            table_size: first.table_size,
            buckets: first.buckets,
            per_bucket,
            values,
        })
    }
}
