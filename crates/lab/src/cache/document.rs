//! The document of `corelane lab cache`. Rows follow from the raw trials alone.

use crate::document::{Head, document};
use crate::trial::{TrialHead, number, trial};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/cache/1";

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Requests of each trial.
    pub requests: u64,
    /// Keys, apart from those that come once.
    pub keys: u32,
    /// Sizes of the caches, in percent of the bytes of all items that are requested.
    pub percents: Vec<u32>,
    /// Trials of each shape and size.
    pub rounds: u32,
    /// The seed of all draws.
    pub seed: u64,
}

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheReport {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// What was run.
    pub plan: Request,
    /// One per shape and size, in order.
    pub rows: Vec<Row>,
    /// Every trial.
    pub trials: Vec<Trial>,
}

document!(CacheReport, [SCHEMA]);

/// One shape and size, over all rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its step.
    pub step: usize,
    /// The shape of the requests.
    pub shape: String,
    /// The size of the cache, in percent.
    pub percent: u32,
    /// Its figures: medians.
    #[serde(flatten)]
    pub values: Values,
}

impl Measured for Row {
    fn values(&self) -> &Values {
        &self.values
    }
}

/// One round of one shape and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Bytes of all items that were requested.
    pub footprint: u64,
    /// The share of reads that hit, by policy.
    pub hit_ratios: BTreeMap<String, f64>,
}

trial!(Trial);

impl Trial {
    fn of(&self, policy: &str) -> Option<f64> {
        self.hit_ratios.get(policy).copied()
    }

    /// Misses of the store per miss of memcached's policy.
    fn misses(&self) -> Option<f64> {
        Some((1.0 - self.of("store")?) / (1.0 - self.of("memcached")?))
    }
}

macro_rules! hit_ratio {
    ($name:literal, $header:literal, $about:literal) => {
        Metric::more(concat!($name, "_hit_ratio"), $header, Show::Share)
            .about($about)
            .read(|trial: &Trial| number(trial.of($name)))
    };
}

pub(super) static STORE: Metric<Trial> =
    hit_ratio!("store", "store", "Reads that hit in the store of this project.");
pub(super) static MEMCACHED: Metric<Trial> = hit_ratio!(
    "memcached",
    "memcached",
    "Reads that hit with the segmented LRU of memcached, the reference."
);
static LRU: Metric<Trial> = hit_ratio!(
    "lru",
    "LRU",
    "Reads that hit if the least recently used item is evicted."
);
static SIEVE: Metric<Trial> = hit_ratio!("sieve", "SIEVE", "Reads that hit with SIEVE.");
static S3_FIFO: Metric<Trial> = hit_ratio!("s3_fifo", "S3-FIFO", "Reads that hit with S3-FIFO.");
pub(super) static MISSES: Metric<Trial> = Metric::less("misses_ratio", "misses", Show::Fixed(2))
    .unit("x memcached")
    .about("Misses of the store divided by those of memcached's policy.")
    .read(|trial: &Trial| number(trial.misses()));

/// In the order of columns.
pub(super) static METRICS: &[&Metric<Trial>] = &[&MEMCACHED, &STORE, &MISSES, &S3_FIFO, &SIEVE, &LRU];
