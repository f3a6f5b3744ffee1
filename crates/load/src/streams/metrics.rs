//! Live counts of a generator over streams, and the metrics of a running one.

use crate::metrics::{failures, live_counts};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_worker::Counter;

live_counts! {
    /// What a worker counts while it runs.
    pub struct LiveStreams {
        explaining Count OPEN open: "open_connections", "open", "connections", "Connections open now.";
        explaining Count OPENED opened: "opened_connections_total", "opened", "connections", "Connections opened.";
        more Count SENT sent: "sent_requests_total", "sent", "requests", "Requests written to a connection.";
        more Count OK ok: "ok_requests_total", "answered", "requests",
            "Requests answered completely, with an expected status and body.";
        less Count FAILED failed: "failed_requests_total", "failed", "requests", "Requests that failed.";
        explaining Count STATUS_2XX status_2xx: "2xx_answers_total", "2xx", "answers", "Final answers with a status of 200 to 299.";
        explaining Count STATUS_3XX status_3xx: "3xx_answers_total", "3xx", "answers", "Final answers with a status of 300 to 399.";
        explaining Count STATUS_4XX status_4xx: "4xx_answers_total", "4xx", "answers", "Final answers with a status of 400 to 499.";
        explaining Count STATUS_5XX status_5xx: "5xx_answers_total", "5xx", "answers", "Final answers with a status of 500 to 599.";
        more Bytes SENT_BYTES sent_bytes: "sent_bytes_total", "sent", "bytes", "Bytes sent.";
        more Bytes RECEIVED_BYTES received_bytes: "received_bytes_total", "received", "bytes", "Bytes received.";
        less Count STALLED stalled: "stalled_connections", "stalled", "connections", "Connections stalled now.";
    }
}

impl LiveStreams {
    /// Answers by the class of their status, as [`OwnCounts::by_class`](super::counts::OwnCounts::by_class) has them.
    pub(super) fn classes(&self) -> [&Counter; 4] {
        [
            &self.status_2xx,
            &self.status_3xx,
            &self.status_4xx,
            &self.status_5xx,
        ]
    }

    /// Of requests.
    pub(crate) const OF_REQUESTS: &'static [Metric<Self>] = &[
        Self::OPEN,
        Self::OPENED,
        Self::SENT,
        Self::OK,
        Self::FAILED,
        Self::STATUS_2XX,
        Self::STATUS_3XX,
        Self::STATUS_4XX,
        Self::STATUS_5XX,
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
