//! Live counts of a generator over streams, and the metrics of a running one.

use crate::metrics::{failures, live_counts};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};

live_counts! {
    /// What a worker counts while it runs.
    pub struct LiveStreams {
        explaining Count OPEN open: "open_connections", "open", "connections", "Connections open now.";
        explaining Count OPENED opened: "opened_connections_total", "opened", "connections", "Connections opened.";
        more Count SENT sent: "sent_requests_total", "sent", "requests", "Requests written to a connection.";
        more Count OK ok: "ok_requests_total", "answered", "requests",
            "Requests answered completely, with an expected status and body.";
        less Count FAILED failed: "failed_requests_total", "failed", "requests", "Requests that failed.";
        more Bytes SENT_BYTES sent_bytes: "sent_bytes_total", "sent", "bytes", "Bytes sent.";
        more Bytes RECEIVED_BYTES received_bytes: "received_bytes_total", "received", "bytes", "Bytes received.";
        less Count STALLED stalled: "stalled_connections", "stalled", "connections", "Connections stalled now.";
    }
}

impl LiveStreams {
    /// Of requests.
    pub(crate) const OF_REQUESTS: &'static [Metric<Self>] = &[
        Self::OPEN,
        Self::OPENED,
        Self::SENT,
        Self::OK,
        Self::FAILED,
        Self::SENT_BYTES,
        Self::RECEIVED_BYTES,
    ];

    /// Of transfers.
    pub(crate) const OF_TRANSFERS: &'static [Metric<Self>] = &[
        Self::OPEN,
        Self::OPENED,
        Self::SENT_BYTES,
        Self::RECEIVED_BYTES,
        Self::STALLED,
    ];
}

pub(crate) static LATENCY: Metric<Histogram> = Metric::less("latency", "latency", Show::Nanoseconds)
    .about("Latency of successful requests from their intended start.")
    .read(|times| Some(Sample::Durations(times)));

pub(crate) static CONNECT: Metric<Histogram> = Metric::less("connect", "opening", Show::Nanoseconds)
    .label("time to open a connection")
    .about("Time to open connections.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILED: [Metric<u64>; 2] = [
    failures().about("Requests or connections in progress that failed, by cause."),
    Metric::less("not_opened_by_cause_total", "not opened", Show::Count)
        .about("Failed attempts to open a connection, by cause.")
        .read(|count| Sample::count(*count)),
];
