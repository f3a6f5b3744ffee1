//! Live counts of a generator over streams, and the metrics of a running one.

use crate::metrics::failures;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_worker::Counter;

/// What a worker counts while it runs.
#[derive(Debug, Default)]
pub struct LiveStreams {
    pub(super) open: Counter,
    pub(super) opened: Counter,
    pub(super) sent: Counter,
    pub(super) ok: Counter,
    pub(super) failed: Counter,
    pub(super) sent_bytes: Counter,
    pub(super) received_bytes: Counter,
    pub(super) stalled: Counter,
}

impl LiveStreams {
    /// Connections open now.
    pub const OPEN: Metric<Self> = Metric::explaining("open_connections", "open", Show::Count)
        .unit("connections")
        .about("Connections open now.")
        .read(|live| Sample::count(live.open.get()));

    /// Connections opened.
    pub const OPENED: Metric<Self> = Metric::explaining("opened_connections_total", "opened", Show::Count)
        .unit("connections")
        .about("Connections opened.")
        .read(|live| Sample::count(live.opened.get()));

    const SENT: Metric<Self> = Metric::more("sent_requests_total", "sent", Show::Count)
        .unit("requests")
        .about("Requests written to a connection.")
        .read(|live| Sample::count(live.sent.get()));

    /// Requests answered as expected.
    pub const OK: Metric<Self> = Metric::more("ok_requests_total", "answered", Show::Count)
        .unit("requests")
        .about("Requests answered completely, with an expected status and body.")
        .read(|live| Sample::count(live.ok.get()));

    /// Requests that failed.
    pub const FAILED: Metric<Self> = Metric::less("failed_requests_total", "failed", Show::Count)
        .unit("requests")
        .about("Requests that failed.")
        .read(|live| Sample::count(live.failed.get()));

    /// Bytes sent.
    pub const SENT_BYTES: Metric<Self> = Metric::more("sent_bytes_total", "sent", Show::Bytes)
        .unit("bytes")
        .about("Bytes sent.")
        .read(|live| Sample::count(live.sent_bytes.get()));

    /// Bytes received.
    pub const RECEIVED_BYTES: Metric<Self> = Metric::more("received_bytes_total", "received", Show::Bytes)
        .unit("bytes")
        .about("Bytes received.")
        .read(|live| Sample::count(live.received_bytes.get()));

    /// Connections stalled now.
    pub const STALLED: Metric<Self> = Metric::less("stalled_connections", "stalled", Show::Count)
        .unit("connections")
        .about("Connections stalled now.")
        .read(|live| Sample::count(live.stalled.get()));

    /// The counts of transfers, or of requests.
    pub(super) const fn all(transfers: bool) -> &'static [Metric<Self>] {
        match transfers {
            true => Self::OF_TRANSFERS,
            false => Self::OF_REQUESTS,
        }
    }

    const OF_REQUESTS: &'static [Metric<Self>] = &[
        Self::OPEN,
        Self::OPENED,
        Self::SENT,
        Self::OK,
        Self::FAILED,
        Self::SENT_BYTES,
        Self::RECEIVED_BYTES,
    ];

    const OF_TRANSFERS: &'static [Metric<Self>] = &[
        Self::OPEN,
        Self::OPENED,
        Self::SENT_BYTES,
        Self::RECEIVED_BYTES,
        Self::STALLED,
    ];
}

pub(super) static LATENCY: Metric<Histogram> = Metric::less("latency", "latency", Show::Nanoseconds)
    .about("Latency of successful requests from their intended start.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static CONNECT: Metric<Histogram> = Metric::less("connect", "opening", Show::Nanoseconds)
    .label("time to open a connection")
    .about("Time to open connections.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILED: [Metric<u64>; 2] = [
    failures().about("Requests or connections in progress that failed, by cause."),
    Metric::less("not_opened_by_cause_total", "not opened", Show::Count)
        .about("Failed attempts to open a connection, by cause.")
        .read(|count| Sample::count(*count)),
];
