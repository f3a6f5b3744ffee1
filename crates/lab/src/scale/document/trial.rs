//! The raw numbers of one trial and its status.

use crate::document::CpuShare;
use crate::steps::{self, number};
use crate::tried::Tried;
use corelane_measure::drops::{Cause, Gap};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Sample;
use corelane_measure::share::Share;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One trial of one step. Counts are frames within the trial; `None` if not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub tried: Tried,
    /// Frames that the clients sent.
    pub generated: u64,
    /// Frames that the server host's device counted.
    pub received: Option<u64>,
    /// Frames that the server's workers read.
    pub seen: u64,
    /// Frames that the workers answered; `None` for a sink.
    pub answered: Option<u64>,
    /// Answers that the clients received; `None` for a sink.
    pub returned: Option<u64>,
    /// Bytes of payload that the workers read.
    pub seen_bytes: Option<u64>,
    /// CPU time of the server, workers and receive path, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// Sampled frames whose receive path ran on their worker's CPU.
    pub locality: Option<Share>,
    /// Sampled frames that reached the bucket selected by their hash.
    pub steering: Option<Share>,
    /// Sampled answers that left on their bucket's CPU and queue; a frame of merged answers is one sample.
    #[serde(default)]
    pub tx_locality: Option<Share>,
    /// Sampled answers that left on their bucket's CPU.
    #[serde(default)]
    pub tx_on_cpu: Option<Share>,
    /// Sampled answers that left on their bucket's queue.
    #[serde(default)]
    pub tx_on_queue: Option<Share>,
    /// Frames sent to the fullest active bucket, divided by the mean of all active buckets.
    #[serde(default)]
    pub imbalance: Option<f64>,
    /// Answers received out of order; `None` for a sink.
    #[serde(default)]
    pub reordered: Option<u64>,
    /// CPU time shares of the trial.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Context switches of the server.
    pub context_switches: Option<u64>,
    /// Effective clock of the server's CPUs, in MHz.
    pub effective_mhz: Option<f64>,
    /// Round trips from the intended send time.
    pub round_trip: Option<Histogram>,
    /// Frames dropped, by the keys of [`Cause`].
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Frames missing without a cause.
    #[serde(default)]
    pub unexplained: Unexplained,
    /// The counts of each bucket.
    #[serde(default)]
    pub per_bucket: Vec<TrialBucket>,
    /// Other raw data of the collectors.
    #[serde(default)]
    pub raw: Value,
}

/// The counts of one bucket in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialBucket {
    /// The bucket.
    pub bucket: u16,
    /// Its worker's CPU.
    pub cpu: u32,
    /// Frames its worker read.
    pub seen: u64,
    /// Frames it answered; `None` for a sink.
    pub answered: Option<u64>,
    /// Frames that its socket dropped.
    pub dropped: u64,
    /// Its sampled frames that arrived on its CPU.
    pub locality: Option<Share>,
    /// Its sampled frames whose hash selects it.
    pub steering: Option<Share>,
    /// Where its worker's memory lay at the end; `None` in documents of versions that did not ask.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

/// Frames missing between two places, less those dropped there under a name. 0 where the account adds up, negative
/// where more came than left, `None` if a place was not counted.
pub type Unexplained = BTreeMap<Gap, Option<i64>>;

/// What the counts of a trial leave open. A drop under a key that is not of [`Cause`] is charged to no gap, and so
/// shows.
#[must_use]
pub fn unexplained(trial: &Trial) -> Unexplained {
    let places = [
        Some(trial.generated),
        trial.received,
        Some(trial.seen),
        trial.answered,
        trial.returned,
    ];
    let open = |gap: Gap| {
        let (before, after) = (places[gap as usize]?, places[gap as usize + 1]?);
        let of_gap = |key: &str| Cause::of_key(key).is_some_and(|(cause, side)| cause.gap(side) == gap);
        let drops = trial.drops.iter().filter(|(key, _)| of_gap(key));
        let named: i128 = drops.map(|(_, frames)| i128::from(*frames)).sum();
        let open = i128::from(before) - i128::from(after) - named;
        Some(open.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    };
    Gap::ALL.map(|gap| (gap, open(gap))).into()
}

impl steps::Trial for Trial {
    fn tried(&self) -> &Tried {
        &self.tried
    }

    fn tried_mut(&mut self) -> &mut Tried {
        &mut self.tried
    }

    fn cpu_shares(&self) -> &[CpuShare] {
        &self.cpu_shares
    }
}

impl Trial {
    /// A count as a rate per second.
    pub(crate) fn rate(&self, count: Option<u64>) -> Option<Sample<'_>> {
        number(count.map(|count| self.tried.per_second(count)))
    }
}
