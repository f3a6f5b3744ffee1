//! The metrics of `lab scale http` and `tcp`, each declared once. Both documents have all of them; what they are judged
//! by and compared by differs.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::document::{Protocol, Trial};
use crate::steps::{linearity_metric, number, share};
use corelane_measure::metric::{Better, Metric, Read, Sample, Show};
use corelane_measure::statistics;

type M = Metric<Trial>;

/// Every metric of a document, in the order of columns; steps are judged by the first.
#[must_use]
pub fn of(protocol: Protocol) -> &'static [&'static M] {
    match protocol {
        Protocol::Http => HTTP,
        Protocol::Tcp => TCP,
    }
}

static HTTP: &[&M] = &[
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
    &STEERING,
    &OPENED,
    &HELD,
    &OPENING,
];

static TCP: &[&M] = &[
    &judged(PAYLOAD),
    &LINEARITY,
    &SERVER_PER_KIB.label("server CPU").compared(),
    &CLIENT_PER_KIB.label("client CPU").compared(),
    &SERVER_BYTES,
    &CLIENT_BYTES,
    &SERVER_SHARE,
    &CLIENT_SHARE,
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

pub const REQUESTS: M = M::higher(
    "requests_per_s",
    "requests",
    Show::Prefixed,
    "Requests answered per second.",
    |trial| {
        // A valid trial without requests is one of bytes.
        number((trial.requests_ok > 0).then(|| trial.tried.per_second(trial.requests_ok)))
    },
)
.unit("/s");

pub const PAYLOAD: M = M::higher(
    "gbit_s",
    "Gb/s",
    Show::Fixed(2),
    "Bytes both ways, in 10^9 bits per second.",
    |trial| number(Some(trial.tried.per_second(trial.bytes()) * 8.0 / 1e9)),
);

pub const LINEARITY: M = linearity_metric();

pub const LATENCY: M = M::lower(
    "latency",
    "p99",
    Show::Nanoseconds,
    "Time from the intended send to the response.",
    |trial| trial.latency.as_ref().map(Sample::Durations),
);

pub const SCHEDULE_LAG: M = M::lower(
    "schedule_lag",
    "schedule lag",
    Show::Nanoseconds,
    "Delay of requests behind their schedule.",
    |trial| trial.schedule_lag.as_ref().map(Sample::Durations),
)
.unit("p99");

pub const SERVER_PER_REQUEST: M = per_request(
    "server_cpu_us_per_request",
    "server",
    "CPU microseconds of the server for each request.",
    |trial| cost(trial.cpu.server_ns, 1e3, trial.requests_ok as f64),
);

pub const CLIENT_PER_REQUEST: M = per_request(
    "client_cpu_us_per_request",
    "client",
    "CPU microseconds of the client for each request.",
    |trial| cost(trial.cpu.client_ns, 1e3, trial.requests_ok as f64),
);

pub const SERVER_PER_KIB: M = per_kib(
    "server_cpu_ns_per_kib",
    "server",
    "CPU nanoseconds of the server for each KiB, either way.",
    |trial| cost(trial.cpu.server_ns, 1.0, trial.bytes() as f64 / 1024.0),
);

pub const CLIENT_PER_KIB: M = per_kib(
    "client_cpu_ns_per_kib",
    "client",
    "CPU nanoseconds of the client for each KiB, either way.",
    |trial| cost(trial.cpu.client_ns, 1.0, trial.bytes() as f64 / 1024.0),
);

pub const SERVER_BYTES: M = per_cpu_second(
    "server_bytes_per_cpu_s",
    "server",
    "Bytes, either way, for each second of the server's CPU time.",
    |trial| carried(trial, trial.cpu.server_ns),
);

pub const CLIENT_BYTES: M = per_cpu_second(
    "client_bytes_per_cpu_s",
    "client",
    "Bytes, either way, for each second of the client's CPU time.",
    |trial| carried(trial, trial.cpu.client_ns),
);

pub const SERVER_SHARE: M = of_cpus(
    "server_cpu_share",
    "server",
    "Share of the CPUs' time used by the server's processes, including the receive path run on their behalf.",
    |trial| cost(trial.cpu.server_ns, 1e9, cpu_seconds(trial)),
);

pub const CLIENT_SHARE: M = of_cpus(
    "client_cpu_share",
    "client",
    "Share of the CPUs' time used by the client's process.",
    |trial| cost(trial.cpu.client_ns, 1e9, cpu_seconds(trial)),
);

pub const STEERING: M = M::higher(
    "steering_ok",
    "steered right",
    Show::Share,
    "Share of connections on the bucket selected by their hash.",
    |trial| share(trial.steering),
);

pub const OPENED: M = M::higher(
    "connections_opened",
    "opened",
    Show::Count,
    "Connections opened.",
    |trial| number(Some(trial.connections.opened as f64)),
);

pub const HELD: M = M::higher(
    "connections_held",
    "held",
    Show::Count,
    "Connections held to the end.",
    |trial| number(Some(trial.connections.held as f64)),
);

pub const OPENING: M = M::lower(
    "opening_s",
    "in",
    Show::Fixed(2),
    "Seconds until all connections were open.",
    |trial| number(trial.connections.opening_s),
)
.unit("s");

/// CPU time in units of so many nanoseconds, for each of `pieces`; `None` if there are none.
fn cost<'a>(cpu_ns: Option<u64>, unit: f64, pieces: f64) -> Option<Sample<'a>> {
    number(statistics::ratio(cpu_ns? as f64 / unit, pieces))
}

/// Bytes, either way, for each second of so much CPU time.
fn carried(trial: &Trial, cpu_ns: Option<u64>) -> Option<Sample<'_>> {
    number(statistics::ratio(trial.bytes() as f64, cpu_ns? as f64 / 1e9))
}

/// What all CPUs of both sides had.
fn cpu_seconds(trial: &Trial) -> f64 {
    trial.tried.duration_s * trial.cpu_shares.len() as f64
}

const fn per_request(name: &'static str, side: &'static str, about: &'static str, read: Read<Trial>) -> M {
    M::lower(name, side, Show::Microseconds(2), about, read).unit("\u{b5}s/request")
}

const fn per_kib(name: &'static str, side: &'static str, about: &'static str, read: Read<Trial>) -> M {
    M::lower(name, side, Show::Nanoseconds, about, read).unit("/KiB")
}

const fn per_cpu_second(name: &'static str, side: &'static str, about: &'static str, read: Read<Trial>) -> M {
    M::higher(name, side, Show::Prefixed, about, read).unit("B/CPU s")
}

const fn of_cpus(name: &'static str, side: &'static str, about: &'static str, read: Read<Trial>) -> M {
    M::new(name, side, Show::WholeShare, Better::Neither, about, read).unit("share %")
}
