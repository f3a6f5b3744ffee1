//! The raw numbers of a trial of `lab scale memcached`, and its metrics, each declared once.

#![allow(missing_docs, reason = "each declaration says what it is")]

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
    &GENERATED,
    &RECEIVED,
    &SEEN,
    &ANSWERED,
    &RETURNED,
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
    .read(|trial| trial.rate(Some(trial.returned)))
    .spread("rate_spread")
    .compared();

pub static GENERATED: M = M::explaining("generated_pps", "generated", Show::PerSecond)
    .about("Requests per second that the clients sent.")
    .read(|trial| trial.rate(Some(trial.generated)));

pub static RECEIVED: M = M::more("received_pps", "received", Show::PerSecond)
    .about("Datagrams per second that the server host's device counted.")
    .read(|trial| trial.rate(trial.received));

pub static SEEN: M = M::more("seen_pps", "seen", Show::PerSecond)
    .about("Datagrams per second that the server read, by its host's kernel.")
    .read(|trial| trial.rate(trial.seen));

pub static ANSWERED: M = M::more("answered_pps", "answered", Show::PerSecond)
    .about("Datagrams per second that the server sent: by its own count, or by its host's kernel, which counts merged ones once.")
    .read(|trial| trial.rate(trial.answered));

pub static RETURNED: M = M::more("returned_pps", "returned", Show::PerSecond)
    .about("Requests per second whose answers came back to the clients.")
    .read(|trial| trial.rate(Some(trial.returned)));

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
    .read(|trial| number(ratio(trial.server_cpu_us?, trial.returned as f64)))
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
    /// Requests that the clients sent.
    pub generated: u64,
    /// Datagrams that the server host's device counted.
    pub received: Option<u64>,
    /// Datagrams that the server read.
    pub seen: Option<u64>,
    /// Datagrams that the server sent.
    pub answered: Option<u64>,
    /// Requests that were answered.
    pub returned: u64,
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

impl Trial {
    /// A count as a rate per second.
    fn rate(&self, count: Option<u64>) -> Option<Sample<'_>> {
        number(count.map(|count| self.head.per_second(count)))
    }

    /// The times of an operation, if it occurred.
    fn of(&self, operation: Operation) -> Option<Sample<'_>> {
        let mut times = self.operations.each();
        let (_, times) = times.find(|(other, _)| *other == operation)?;
        Some(Sample::Durations(times))
    }
}
