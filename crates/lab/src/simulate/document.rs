//! The document of `corelane lab simulate`: how evenly RSS spreads flows over buckets, and what rebalancing would gain.
//!
//! Loads are counted in datagrams, exactly; every other number follows from them. Steps are filled from raw trials by
//! [`Step::of`].

use crate::document::{Head, document};
use corelane_measure::statistics::Spread;
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
    /// The flows of the first round, where they were asked for: what a real run has to send for the same buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// Sentences, the last line of the text last.
    pub conclusions: Vec<String>,
}

document!(SimulateReport, [SCHEMA]);

/// What was simulated: with the version of the program, all that it takes to repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Numbers of buckets.
    pub buckets: Vec<usize>,
    /// Sizes of the indirection table, in entries.
    pub table_sizes: Vec<usize>,
    /// Pairs of the two that make no step, because buckets would have no entry.
    pub left_out: Vec<LeftOut>,
    /// Flows of each round.
    pub flows: usize,
    /// Datagrams of all flows together.
    pub datagrams: u64,
    /// How the datagrams are shared out among the flows: `uniform`, `zipf:EXPONENT`, `elephants:FLOWS:SHARE`.
    pub sizes: String,
    /// `2tuple` or `4tuple`.
    pub hash_fields: String,
    /// The RSS key, in hexadecimal.
    pub key: String,
    /// The pool of client addresses that the flows come from.
    pub clients: String,
    /// Where the flows go.
    pub server: String,
    /// The seed of all draws.
    pub seed: u64,
    /// Rounds, each with flows of its own.
    pub rounds: u32,
    /// How far above the lowest level found a rebalanced bucket may stay, as a share of that level.
    pub rebalance_tolerance: f64,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Entries of the table.
    pub table_size: usize,
    /// Buckets.
    pub buckets: usize,
    /// The round, from 0.
    pub round: u32,
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

/// A table size and a number of buckets, over all rounds.
///
/// Imbalance is the fullest bucket's load over the mean: 1 when all are level, the number of buckets when one takes all.
/// The throughput share is the inverse. Where each bucket has a CPU and all cost the same, the fullest one's CPU is busy
/// first, and the buckets then carry this share of what they could together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Entries of the table.
    pub table_size: usize,
    /// Buckets.
    pub buckets: usize,
    /// With the table that drivers start with.
    pub imbalance: Spread,
    /// The share of the ideal that this leaves.
    pub throughput_share: Spread,
    /// With the same table and an ideal hash.
    pub random_imbalance: Spread,
    /// With the rebalanced table.
    pub rebalanced_imbalance: Spread,
    /// The share of the ideal that this leaves.
    pub rebalanced_throughput_share: Spread,
    /// Entries that rebalancing moved.
    pub moves: Spread,
    /// A lower bound for every table that sends whole entries to buckets.
    pub least_imbalance: Spread,
    /// The largest flow over the mean of the buckets; above 1 nothing that keeps a flow on one bucket can be level.
    pub largest_flow_imbalance: Spread,
    /// The buckets in the first round.
    pub per_bucket: Vec<PerBucket>,
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

impl Step {
    /// The step of these trials, which are all of one table size and number of buckets and share out `datagrams` each.
    /// `None` without a trial.
    #[must_use]
    pub fn of(trials: &[&Trial], datagrams: u64, per_bucket: Vec<PerBucket>) -> Option<Self> {
        let first = trials.first()?;
        let mean = datagrams as f64 / first.buckets as f64;
        let spread = |of: &dyn Fn(&Trial) -> f64| {
            let values: Vec<f64> = trials.iter().map(|trial| of(trial)).collect();
            Spread::of(&values)
        };
        let over_mean = |of: fn(&Trial) -> u64| spread(&|trial| of(trial) as f64 / mean);
        let under_mean = |of: fn(&Trial) -> u64| spread(&|trial| mean / of(trial) as f64);
        Some(Self {
            table_size: first.table_size,
            buckets: first.buckets,
            imbalance: over_mean(|trial| trial.fullest_datagrams)?,
            throughput_share: under_mean(|trial| trial.fullest_datagrams)?,
            random_imbalance: over_mean(|trial| trial.random_fullest_datagrams)?,
            rebalanced_imbalance: over_mean(|trial| trial.rebalanced_fullest_datagrams)?,
            rebalanced_throughput_share: under_mean(|trial| trial.rebalanced_fullest_datagrams)?,
            moves: spread(&|trial| trial.moves as f64)?,
            least_imbalance: over_mean(|trial| trial.least_fullest_datagrams)?,
            largest_flow_imbalance: over_mean(|trial| trial.largest_flow_datagrams)?,
            per_bucket,
        })
    }
}
