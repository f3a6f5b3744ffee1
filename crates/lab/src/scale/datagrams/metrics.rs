//! The raw numbers of a trial of `lab scale udp`, and its metrics, each declared once.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::gap::{self, Gap};
use crate::scale::counts::{self, Counted, Counts};
use crate::scale::steps::{linearity_metric, others_metric};
use crate::trial::{CpuShare, TrialHead, number, share, trial};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::share::Share;
use corelane_measure::statistics::ratio;
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

type M = Metric<Trial>;

/// Every metric, in the order of columns; steps are judged by the first.
pub static METRICS: &[&M] = &[
    &RATE,
    &COUNTS[0],
    &COUNTS[1],
    &COUNTS[2],
    &COUNTS[3],
    &COUNTS[4],
    &PAYLOAD,
    &CPU,
    &LOCALITY,
    &STEERING,
    &TX_LOCALITY,
    &TX_ON_CPU,
    &TX_ON_QUEUE,
    &LINEARITY,
    &RATE_OF_PLAIN,
    &COST_OF_PLAIN,
    &IMBALANCE,
    &REORDERED,
    &CONTEXT_SWITCHES,
    &OTHERS_SHARE,
    &CLOCK,
    &ROUND_TRIP,
];

pub static RATE: M = M::more("rate_pps", "rate", Show::PerSecond)
    .about("Frames answered per second; for a sink, frames seen.")
    .read(|trial| trial.head.rate(trial.counts.answered.or(trial.counts.seen)))
    .spread("rate_spread")
    .compared();

pub static COUNTS: [M; 5] = counts::metrics();

pub static PAYLOAD: M = M::more("gbit_s", "Gb/s", Show::Fixed(2))
    .about("Payload that the workers read, in 10^9 bits per second.")
    .read(|trial| number(Some(trial.head.per_second(trial.seen_bytes?) * 8.0 / 1e9)));

pub static CPU: M = M::less("cpu_us_per_frame", "CPU \u{b5}s", Show::Microseconds(2))
    .about("CPU microseconds of the server, workers and receive path, for each frame seen.")
    .read(|trial| number(ratio(trial.server_cpu_us?, trial.counts.seen? as f64)))
    .unit("/frame")
    .label("CPU per frame")
    .compared();

pub static LOCALITY: M = M::more("locality", "local", Show::Share)
    .about("Share of sampled frames whose receive path ran on their worker's CPU.")
    .read(|trial| share(trial.locality))
    .label("locality")
    .compared();

pub static STEERING: M = M::more("steering_ok", "steered right", Show::Share)
    .about("Share of sampled frames that reached the bucket selected by their hash.")
    .read(|trial| share(trial.steering));

pub static TX_LOCALITY: M = M::more("tx_locality", "tx", Show::Share)
    .about("Share of sampled answers that left on their bucket's CPU and queue.")
    .read(|trial| share(trial.tx_locality))
    .unit("local %");

pub static TX_ON_CPU: M = M::more("tx_on_cpu", "tx on CPU", Show::Share)
    .about("Share of sampled answers that left on their bucket's CPU.")
    .read(|trial| share(trial.tx_on_cpu));

pub static TX_ON_QUEUE: M = M::more("tx_on_queue", "tx on queue", Show::Share)
    .about("Share of sampled answers that left on their bucket's queue.")
    .read(|trial| share(trial.tx_on_queue));

pub static LINEARITY: M = linearity_metric();

pub static RATE_OF_PLAIN: M = M::more("rate_of_plain", "rate", Show::Ratio)
    .about("Rate as a share of that of the same step without its variation, from the medians.")
    .unit("of plain");

pub static COST_OF_PLAIN: M = M::less("cost_of_plain", "CPU", Show::Ratio)
    .about("CPU time per frame as a share of that of the same step without its variation, from the medians.")
    .unit("of plain");

pub static IMBALANCE: M = M::less("imbalance", "fullest", Show::Fixed(2))
    .about("Frames sent to the fullest active bucket, divided by the mean of all active buckets.")
    .read(|trial| number(trial.imbalance))
    .unit("x mean");

pub static REORDERED: M = M::less("reordered_share", "out of", Show::Share)
    .about("Share of answers received out of order.")
    .read(|trial| {
        let (hits, samples) = (trial.reordered?, trial.counts.returned?);
        share(Some(Share { hits, samples }))
    })
    .unit("order %");

pub static CONTEXT_SWITCHES: M = M::less("context_switches_per_s", "ctx switches", Show::PerSecond)
    .about("Context switches of the server per second.")
    .read(|trial| trial.head.rate(trial.context_switches));

pub static OTHERS_SHARE: M = others_metric::<Trial>().read(|trial| number(trial.others_share));

pub static CLOCK: M = M::explaining("effective_mhz", "clock", Show::Fixed(0))
    .about("Effective clock of the server's CPUs, in MHz.")
    .read(|trial| number(trial.effective_mhz))
    .unit("MHz");

pub static ROUND_TRIP: M = M::less("round_trip", "round trip", Show::Nanoseconds)
    .about("Round trips from the intended send time.")
    .read(|trial| trial.round_trip.as_ref().map(Sample::Durations))
    .label("round trip p99")
    .compared();

/// One trial of one step. Counts are frames within the trial; `None` if not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Frames at five places; a sink answers none.
    #[serde(flatten)]
    pub counts: Counts,
    /// Bytes of payload that the workers read.
    pub seen_bytes: Option<u64>,
    /// CPU time of the server, workers and receive path, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// Sampled frames whose receive path ran on their worker's CPU.
    pub locality: Option<Share>,
    /// Sampled frames that reached the bucket selected by their hash.
    pub steering: Option<Share>,
    /// Sampled answers that left on their bucket's CPU and queue; a frame of merged answers is one sample.
    pub tx_locality: Option<Share>,
    /// Sampled answers that left on their bucket's CPU.
    pub tx_on_cpu: Option<Share>,
    /// Sampled answers that left on their bucket's queue.
    pub tx_on_queue: Option<Share>,
    /// Frames sent to the fullest active bucket, divided by the mean of all active buckets.
    pub imbalance: Option<f64>,
    /// Answers received out of order; `None` for a sink.
    pub reordered: Option<u64>,
    /// CPU time shares of the trial.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Estimated share of the CPUs' time that other programs used.
    pub others_share: Option<f64>,
    /// Context switches of the server.
    pub context_switches: Option<u64>,
    /// Effective clock of the server's CPUs, in MHz.
    pub effective_mhz: Option<f64>,
    /// Round trips from the intended send time.
    pub round_trip: Option<Histogram>,
    /// Answers per second over time, or frames sent to a sink.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Frames dropped, by [`gap::key`].
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
    pub memory: Option<WorkerMemory>,
}

/// Frames missing between two places, less those dropped there under a name. 0 where the account adds up, negative
/// where more came than left, `None` if a place was not counted.
pub type Unexplained = BTreeMap<Gap, Option<i64>>;

/// What the counts of a trial leave open. A drop under an unknown key is charged to no gap, and so
/// shows.
#[must_use]
pub fn unexplained(trial: &Trial) -> Unexplained {
    let places = trial.counts.places();
    let open = |gap: Gap| {
        let (before, after) = (places[gap as usize]?, places[gap as usize + 1]?);
        let of_gap = |key: &str| gap::of_key(key).is_some_and(|(cause, side)| gap::gap(cause, side) == gap);
        let drops = trial.drops.iter().filter(|(key, _)| of_gap(key));
        let named: i128 = drops.map(|(_, frames)| i128::from(*frames)).sum();
        let open = i128::from(before) - i128::from(after) - named;
        Some(open.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    };
    Gap::ALL.map(|gap| (gap, open(gap))).into()
}

trial!(
    Trial,
    fn cpu_shares(&self) -> &[CpuShare] {
        &self.cpu_shares
    }
);

impl Counted for Trial {
    fn counts(&self) -> &Counts {
        &self.counts
    }
}
