//! The raw numbers of a trial of `lab scale memcached`, and its metrics, each declared once.

#![allow(missing_docs, reason = "each declaration says what it is")]

use crate::scale::counts::{self, Counted, Counts};
use crate::scale::steps::{linearity_metric, others_metric};
use crate::trial::{CpuShare, TrialHead, number, share, trial};
use corelane_load::memcached::{Operation, Times};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::share::Share;
use corelane_measure::statistics::ratio;
use corelane_measure::time_series::TimeSeries;
use serde::{Deserialize, Serialize};
use serde_json::Value;

type M = Metric<Trial>;

/// Every metric, in the order of columns; steps are judged by the first.
pub static METRICS: &[&M] = &[
    &RATE,
    &COUNTS[0],
    &COUNTS[1],
    &COUNTS[2],
    &COUNTS[3],
    &COUNTS[4],
    &HITS,
    &WRONG,
    &LOCAL,
    &CPU,
    &LINEARITY,
    &OTHERS_SHARE,
    &LATENCY,
    &GET,
    &SET,
];

pub static RATE: M = M::more("rate_rps", "rate", Show::PerSecond)
    .about("Requests answered per second, by the clients' count.")
    .read(|trial| trial.head.rate(trial.counts.returned))
    .spread("rate_spread")
    .compared();

pub static COUNTS: [M; 5] = counts::metrics();

pub static HITS: M = M::more("hits", "hits", Show::Share)
    .about("Share of the keys asked for that had a value.")
    .read(|trial| share(trial.hits));

pub static WRONG: M = M::less("wrong", "wrong", Show::Count)
    .about("Answers that no correct server gives.")
    .read(|trial| number(Some(trial.wrong as f64)));

pub static LOCAL: M = M::more("local_requests", "local", Show::Share)
    .about("Share of the requests whose key the worker owns that received them; of others it reads the item in the owner's memory, or hands them over.")
    .read(|trial| share(trial.local));

pub static CPU: M = M::less("cpu_us_per_request", "CPU \u{b5}s", Show::Microseconds(2))
    .about("CPU microseconds of the server, workers and receive path, for each request answered.")
    .read(|trial| number(ratio(trial.server_cpu_us?, trial.counts.returned? as f64)))
    .unit("/request")
    .label("CPU per request")
    .compared();

pub static LINEARITY: M = linearity_metric();

pub static OTHERS_SHARE: M = others_metric::<Trial>().read(|trial| number(trial.others_share));

pub static LATENCY: M = M::less("latency", "latency", Show::Nanoseconds)
    .about("From the intended send time of a request to its answer.")
    .read(|trial| trial.latency.as_ref().map(Sample::Durations))
    .label("latency p99")
    .compared();

pub static GET: M = M::less("get_latency", "get", Show::Nanoseconds)
    .about("The same, of `get`.")
    .read(|trial| trial.of(Operation::Get))
    .label("get p99");

pub static SET: M = M::less("set_latency", "set", Show::Nanoseconds)
    .about("The same, of `set`.")
    .read(|trial| trial.of(Operation::Set))
    .label("set p99");

/// One trial of one step. Counts are requests within the trial, each of one datagram over UDP; `None` if not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Requests at five places; over TCP at both ends alone.
    #[serde(flatten)]
    pub counts: Counts,
    /// Keys that were asked for, and had a value.
    pub hits: Option<Share>,
    /// Answers that no correct server gives.
    pub wrong: u64,
    /// Requests that the worker of their key received.
    pub local: Option<Share>,
    /// CPU time of the server, workers and receive path, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// CPU time shares of the trial.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Estimated share of the CPUs' time that other programs used.
    pub others_share: Option<f64>,
    /// From the intended send time of a request to its answer.
    pub latency: Option<Histogram>,
    /// The same by operation.
    #[serde(default)]
    pub operations: Times,
    /// Answers per second over time.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// What the clients counted.
    #[serde(default)]
    pub raw: Value,
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

impl Trial {
    /// The times of an operation, if it occurred.
    fn of(&self, operation: Operation) -> Option<Sample<'_>> {
        let mut times = self.operations.each();
        let (_, times) = times.find(|(other, _)| *other == operation)?;
        Some(Sample::Durations(times))
    }
}
