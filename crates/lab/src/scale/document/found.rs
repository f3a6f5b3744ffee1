//! The results of a step besides its metrics: counts per bucket and drops.

use super::{Trial, TrialBucket, Unexplained};
use crate::documents::observed::Observed;
use crate::steps::summed;
use corelane_measure::drops::Gap;
use corelane_measure::share::Share;
use corelane_measure::statistics;
use corelane_worker::worker_memory::WorkerMemory;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields specific to steps of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Frames dropped, by the keys of [`Cause`](corelane_measure::drops::Cause), summed over the valid trials.
    pub drops: BTreeMap<String, u64>,
    /// Frames missing without a cause, by gap, summed over the valid trials.
    pub unexplained: Unexplained,
    /// What each bucket did.
    #[serde(deserialize_with = "through_json")]
    pub per_bucket: Vec<PerBucket>,
    /// The observations of the last valid trial; `None` if none were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// Reads what has a map by numbers, as the pages of each node are. Its keys are strings in JSON, whose own reader turns them
/// back; that of a flattened struct, which [`Found`] is, does not.
fn through_json<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    serde_json::from_value(value).map_err(D::Error::custom)
}

/// What one bucket did in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerBucket {
    /// The bucket.
    pub bucket: u16,
    /// Its worker's CPU.
    pub cpu: u32,
    /// Frames its worker read, summed over the valid trials.
    pub seen: u64,
    /// Frames it answered; `None` for a sink.
    pub answered: Option<u64>,
    /// Frames that its socket dropped.
    pub dropped: u64,
    /// Frames it read per second, median.
    pub seen_pps: Option<f64>,
    /// Share of its sampled frames that arrived on its CPU.
    pub locality: Option<f64>,
    /// Share of its sampled frames whose hash selects it.
    pub steering_ok: Option<f64>,
    /// Where its worker's memory lay at the end of the last valid trial; `None` in documents of versions that did not
    /// ask.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

impl Found {
    pub(super) fn fill(&mut self, valid: &[&Trial]) {
        self.drops = summed(valid.iter().flat_map(|trial| &trial.drops));
        // A gap that was counted in only some trials keeps their count.
        self.unexplained = Gap::ALL.map(|gap| (gap, None)).into();
        for (gap, frames) in valid.iter().flat_map(|trial| &trial.unexplained) {
            if let Some(frames) = frames {
                let sum = self.unexplained.entry(*gap).or_default().get_or_insert(0);
                *sum = sum.saturating_add(*frames);
            }
        }
        let mut by_bucket: BTreeMap<u16, Vec<(&Trial, &TrialBucket)>> = BTreeMap::new();
        for trial in valid {
            for bucket in &trial.per_bucket {
                by_bucket.entry(bucket.bucket).or_default().push((trial, bucket));
            }
        }
        self.per_bucket = by_bucket.into_values().map(|parts| per_bucket(&parts)).collect();
    }
}

/// One bucket over the trials.
fn per_bucket(parts: &[(&Trial, &TrialBucket)]) -> PerBucket {
    let buckets = || parts.iter().map(|(_, bucket)| *bucket);
    let pooled =
        |of: fn(&TrialBucket) -> Option<Share>| buckets().filter_map(of).reduce(Share::plus)?.value();
    let rate = |(trial, bucket): &(&Trial, &TrialBucket)| trial.tried.per_second(bucket.seen);
    PerBucket {
        bucket: parts[0].1.bucket,
        cpu: parts[0].1.cpu,
        seen: buckets().map(|bucket| bucket.seen).sum(),
        answered: buckets().map(|bucket| bucket.answered).sum(),
        dropped: buckets().map(|bucket| bucket.dropped).sum(),
        seen_pps: statistics::median(&parts.iter().map(rate).collect::<Vec<_>>()),
        locality: pooled(|bucket| bucket.locality),
        steering_ok: pooled(|bucket| bucket.steering),
        memory: buckets().rev().find_map(|bucket| bucket.memory.clone()),
    }
}
