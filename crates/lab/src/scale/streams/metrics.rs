//! The raw counts of a trial of `lab scale http` and `tcp`, and its metrics, each declared once. Both documents have
//! all of them; what they are judged by and compared by differs.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::memory::Memory;
use crate::scale::steps::{linearity_metric, others_metric};
use crate::trial::{CpuShare, TrialHead, number, share, trial};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::share::Share;
use corelane_measure::statistics;
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

type M = Metric<Trial>;

pub(super) const HTTP: &[&M] = &[
    &judged(REQUESTS),
    &PAYLOAD,
    &LINEARITY,
    &SERVER_PER_REQUEST.label("server CPU").compared(),
    &CLIENT_PER_REQUEST.label("client CPU").compared(),
    &LATENCY.label("latency p99").compared(),
    &SCHEDULE_LAG,
    &SERVER_PER_KIB,
    &CLIENT_PER_KIB,
    &SERVER_BYTES,
    &CLIENT_BYTES,
    &SERVER_SHARE,
    &CLIENT_SHARE,
    &OTHERS_SHARE,
    &STEERING,
    &OPENED,
    &HELD,
    &OPENING,
    &DRAIN,
];

pub(super) const TCP: &[&M] = &[
    &judged(PAYLOAD),
    &LINEARITY,
    &SERVER_PER_KIB.label("server CPU").compared(),
    &CLIENT_PER_KIB.label("client CPU").compared(),
    &SERVER_BYTES,
    &CLIENT_BYTES,
    &SERVER_SHARE,
    &CLIENT_SHARE,
    &OTHERS_SHARE,
    &STEERING,
    &OPENED,
    &HELD,
    &OPENING,
    &SCHEDULE_LAG,
    &REQUESTS,
    &LATENCY,
    &SERVER_PER_REQUEST,
    &CLIENT_PER_REQUEST,
];

const fn judged(metric: M) -> M {
    metric.label("rate").spread("rate_spread").compared()
}

/// Metrics of requests, which a document of bytes has without a value.
pub const OF_REQUESTS: [&str; 4] = [
    REQUESTS.name,
    LATENCY.name,
    SERVER_PER_REQUEST.name,
    CLIENT_PER_REQUEST.name,
];

pub const REQUESTS: M = M::more("requests_per_s", "requests", Show::Prefixed)
    .about("Requests answered per second, within the measured time.")
    // A valid trial without requests is one of bytes.
    .read(|trial| number((trial.in_time() > 0).then(|| trial.head.per_second(trial.in_time()))))
    .unit("/s");

pub const PAYLOAD: M = M::more("gbit_s", "Gb/s", Show::Fixed(2))
    .about("Bytes both ways, in 10^9 bits per second.")
    .read(|trial| number(Some(trial.head.per_second(trial.bytes()) * 8.0 / 1e9)));

pub const LINEARITY: M = linearity_metric();

pub const LATENCY: M = M::less("latency", "p99", Show::Nanoseconds)
    .about("Time from the intended send to the response.")
    .read(|trial| trial.latency.as_ref().map(Sample::Durations));

pub const SCHEDULE_LAG: M = M::less("schedule_lag", "schedule lag", Show::Nanoseconds)
    .about("Delay of requests behind their schedule.")
    .read(|trial| trial.schedule_lag.as_ref().map(Sample::Durations))
    .unit("p99");

pub const SERVER_PER_REQUEST: M = M::less("server_cpu_us_per_request", "server", Show::Microseconds(2))
    .about("CPU microseconds of the server for each request.")
    .read(|trial| cost(trial.cpu.server_ns, 1e3, trial.in_time() as f64))
    .unit("\u{b5}s/request");

pub const CLIENT_PER_REQUEST: M = M::less("client_cpu_us_per_request", "client", Show::Microseconds(2))
    .about("CPU microseconds of the client for each request.")
    .read(|trial| cost(trial.cpu.client_ns, 1e3, trial.in_time() as f64))
    .unit("\u{b5}s/request");

pub const SERVER_PER_KIB: M = M::less("server_cpu_ns_per_kib", "server", Show::Nanoseconds)
    .unbounded()
    .about("CPU nanoseconds of the server for each KiB, either way.")
    .read(|trial| cost(trial.cpu.server_ns, 1.0, trial.bytes() as f64 / 1024.0))
    .unit("/KiB");

pub const CLIENT_PER_KIB: M = M::less("client_cpu_ns_per_kib", "client", Show::Nanoseconds)
    .unbounded()
    .about("CPU nanoseconds of the client for each KiB, either way.")
    .read(|trial| cost(trial.cpu.client_ns, 1.0, trial.bytes() as f64 / 1024.0))
    .unit("/KiB");

pub const SERVER_BYTES: M = M::more("server_bytes_per_cpu_s", "server", Show::Prefixed)
    .about("Bytes, either way, for each second of the server's CPU time.")
    .read(|trial| carried(trial, trial.cpu.server_ns))
    .unit("B/CPU s");

pub const CLIENT_BYTES: M = M::more("client_bytes_per_cpu_s", "client", Show::Prefixed)
    .about("Bytes, either way, for each second of the client's CPU time.")
    .read(|trial| carried(trial, trial.cpu.client_ns))
    .unit("B/CPU s");

pub const SERVER_SHARE: M = M::explaining("server_cpu_share", "server", Show::WholeShare)
    .about("Share of the CPUs' time used by the server's processes, including the receive path run on their behalf.")
    .read(|trial| cost(trial.cpu.server_ns, 1e9, cpu_seconds(trial)))
    .unit("share %");

pub const CLIENT_SHARE: M = M::explaining("client_cpu_share", "client", Show::WholeShare)
    .about("Share of the CPUs' time used by the client's process.")
    .read(|trial| cost(trial.cpu.client_ns, 1e9, cpu_seconds(trial)))
    .unit("share %");

pub const OTHERS_SHARE: M = others_metric::<Trial>().read(|trial| number(trial.cpu.others_share));

pub const STEERING: M = M::more("steering_ok", "steered right", Show::Share)
    .about("Share of connections on the bucket selected by their hash.")
    .read(|trial| share(trial.steering));

pub const OPENED: M = M::more("connections_opened", "opened", Show::Count)
    .about("Connections opened.")
    .read(|trial| number(Some(trial.connections.opened as f64)));

pub const HELD: M = M::more("connections_held", "held", Show::Count)
    .about("Connections held to the end.")
    .read(|trial| number(Some(trial.connections.held as f64)));

pub const OPENING: M = M::less("opening_s", "in", Show::Fixed(2))
    .about("Seconds until all connections were open.")
    .read(|trial| number(trial.connections.opening_s))
    .unit("s");

pub const DRAIN: M = M::explaining("drain_s", "drain", Show::Fixed(2))
    .about("Seconds after the measured time in which pending answers were awaited.")
    .read(|trial| number(trial.drain_s))
    .unit("s");

/// CPU time in units of so many nanoseconds, for each of `pieces`; `None` if there are none.
fn cost<'a>(cpu_ns: Option<u64>, unit: f64, pieces: f64) -> Option<Sample<'a>> {
    number(statistics::ratio(cpu_ns? as f64 / unit, pieces))
}

/// Bytes, either way, for each second of so much CPU time.
fn carried(trial: &Trial, cpu_ns: Option<u64>) -> Option<Sample<'_>> {
    number(statistics::ratio(trial.bytes() as f64, cpu_ns? as f64 / 1e9))
}

/// What all CPUs of both sides had between the readings of CPU time.
fn cpu_seconds(trial: &Trial) -> f64 {
    let clocked_s = trial.cpu.clocked_s.unwrap_or(trial.head.duration_s);
    clocked_s * trial.cpu_shares.len() as f64
}

/// One trial. Counts are of the measured time alone, from when every connection was open.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Requests answered correctly, counted by the client; 0 for TCP.
    pub requests_ok: u64,
    /// Of those, answered after the measured time, while pending answers were awaited.
    #[serde(default)]
    pub requests_late: u64,
    /// Seconds after the measured time in which pending answers were awaited.
    pub drain_s: Option<f64>,
    /// Requests that the server answered, by its own count; `None` if it does not report them.
    pub served_requests: Option<u64>,
    /// Errors by cause.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Bytes that the client received.
    pub received_bytes: u64,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Time from the intended send to the response.
    pub latency: Option<Histogram>,
    /// Requests or bytes per second over time.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Delay of requests behind their schedule.
    pub schedule_lag: Option<Histogram>,
    /// Connection counts.
    pub connections: Connections,
    /// Retransmissions, reordering and stalls, on both sides.
    pub segments: Option<Segments>,
    /// Counts of both sides per bucket; empty if not reported.
    #[serde(default)]
    pub per_bucket: Vec<BucketBytes>,
    /// CPU time.
    #[serde(default)]
    pub cpu: CpuUse,
    /// CPU time shares.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Connections on the bucket selected by their hash.
    pub steering: Option<Share>,
    /// Kernel counters that indicate a limit and increased, by side and name: `server.overflows`.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
    /// Where memory went while every connection was open.
    pub memory: Option<Memory>,
    /// NUMA placement of our server's workers, in bucket order; empty if no policy was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worker_memory: Vec<WorkerMemory>,
    /// Limits that the generator reported.
    pub limited_by: Option<String>,
    /// The reports of server and generator as they wrote them.
    #[serde(default)]
    pub raw: Value,
}

/// Connection counts of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections requested.
    pub asked: u64,
    /// Connections established.
    pub opened: u64,
    /// Connections still open at the end of the measurement.
    pub held: u64,
    /// Connections that failed to open, by cause.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Seconds until all successful connections were open.
    pub opening_s: Option<f64>,
}

corelane_measure::counters! {
    /// Retransmissions, reordering and stalls of both sides, from the kernel's counts per connection (`TCP_INFO`).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Segments {
        /// Segments retransmitted.
        pub sent_again: u64,
        /// Segments received out of order.
        pub out_of_order: u64,
        /// Periods in which a connection made no progress.
        pub stalls: u64,
    }
}

/// Counts of both sides of one bucket, from the first connection until everything had arrived. `None` if a side does
/// not count per bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketBytes {
    /// The bucket.
    pub bucket: u16,
    /// Connections whose source ports were planned for it.
    pub connections_planned: Option<u64>,
    /// Connections that came to it.
    pub connections: u64,
    /// Bytes that its clients sent.
    pub client_sent: Option<u64>,
    /// Bytes that its worker received.
    pub server_received: u64,
    /// Bytes that its worker sent.
    pub server_sent: u64,
    /// Bytes that its clients received.
    pub client_received: Option<u64>,
}

/// CPU time of a trial in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Of the server's processes.
    pub server_ns: Option<u64>,
    /// Of the client's process.
    pub client_ns: Option<u64>,
    /// Seconds between the two readings; `None` in documents of earlier versions.
    pub clocked_s: Option<f64>,
    /// Estimated share of the CPUs' time that other programs used.
    pub others_share: Option<f64>,
}

trial!(
    Trial,
    fn cpu_shares(&self) -> &[CpuShare] {
        &self.cpu_shares
    }
);

impl Trial {
    /// Requests answered within the measured time.
    pub(crate) const fn in_time(&self) -> u64 {
        self.requests_ok.saturating_sub(self.requests_late)
    }

    /// Bytes both ways, by the client's count, without those of late answers, which are as large as the others.
    pub(crate) const fn bytes(&self) -> u64 {
        let all = self.received_bytes + self.sent_bytes;
        match self.requests_late {
            0 => all,
            _ => (all as u128 * self.in_time() as u128 / self.requests_ok as u128) as u64,
        }
    }
}
