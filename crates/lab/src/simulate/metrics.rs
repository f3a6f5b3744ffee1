//! The metrics of `lab simulate`, each declared once. A step has the range over the rounds of each.
//!
//! Imbalance is the fullest bucket's load over the mean: 1 when all are level, the number of buckets when one takes
//! all. The throughput share is the inverse. Where each bucket has a CPU and all cost the same, the fullest one's CPU
//! is busy first, and the buckets then carry this share of what they could together.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::document::{PerBucket, Step, Trial};
use crate::steps::number;
use corelane_measure::metric::{Better, Metric, Read, Show, Values};

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

const fn over_mean(name: &'static str, header: &'static str, about: &'static str, read: Read<Trial>) -> M {
    let metric = M::lower(name, header, Show::Fixed(2), about, read);
    metric.unit("/mean").spread(name)
}

const fn of_ideal(name: &'static str, about: &'static str, read: Read<Trial>) -> M {
    M::higher(name, "of ideal", Show::Share, about, read).spread(name)
}

pub static IMBALANCE: M = over_mean(
    "imbalance",
    "fullest",
    "Load of the fullest bucket over the mean, with the table that drivers start with.",
    |trial| number(trial.over_mean(trial.fullest_datagrams)),
);

pub static RANDOM_IMBALANCE: M = over_mean(
    "random_imbalance",
    "random",
    "The same with an ideal hash.",
    |trial| number(trial.over_mean(trial.random_fullest_datagrams)),
);

pub static THROUGHPUT_SHARE: M = of_ideal(
    "throughput_share",
    "What the buckets carry together when the fullest is busy.",
    |trial| number(trial.of_ideal(trial.fullest_datagrams)),
);

pub static REBALANCED_IMBALANCE: M = over_mean(
    "rebalanced_imbalance",
    "rebalanced",
    "Load of the fullest bucket over the mean with the rebalanced table.",
    |trial| number(trial.over_mean(trial.rebalanced_fullest_datagrams)),
);

pub static REBALANCED_SHARE: M = of_ideal(
    "rebalanced_throughput_share",
    "What the buckets carry together with the rebalanced table.",
    |trial| number(trial.of_ideal(trial.rebalanced_fullest_datagrams)),
);

pub static MOVES: M = M::new(
    "moves",
    "moves",
    Show::Fixed(0),
    Better::Neither,
    "Entries that rebalancing moved.",
    |trial| number(Some(trial.moves as f64)),
)
.spread("moves");

pub static LEAST_IMBALANCE: M = over_mean(
    "least_imbalance",
    "least",
    "A lower bound of the imbalance of all tables that send whole entries to buckets.",
    |trial| number(trial.over_mean(trial.least_fullest_datagrams)),
);

pub static LARGEST_FLOW: M = over_mean(
    "largest_flow_imbalance",
    "flow",
    "The largest flow over the mean of the buckets; above 1 nothing that keeps a flow on one bucket can be level.",
    |trial| number(trial.over_mean(trial.largest_flow_datagrams)),
);

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
