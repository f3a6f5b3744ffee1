//! Live counts of a generator over streams, and the metrics of a running one.

use crate::metrics::failures;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Whether connections are still being opened.
    pub opening: bool,
    /// Whether no more requests are made: last answers are awaited, and connections closed. For transfers: whether
    /// their last bytes have arrived.
    pub draining: bool,
    /// Connections that are open.
    pub open: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered as expected.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Stalled transfers.
    pub stalled: u64,
}

const OPEN: Metric<StreamProgress> = Metric::explaining("open_connections", "open", Show::Count)
    .about("Connections open now.")
    .read(|worker| Sample::count(worker.open));

const SENT: Metric<StreamProgress> = Metric::more("sent_bytes_total", "sent", Show::Bytes)
    .about("Bytes sent.")
    .read(|worker| Sample::count(worker.sent_bytes));

const RECEIVED: Metric<StreamProgress> = Metric::more("received_bytes_total", "received", Show::Bytes)
    .about("Bytes received.")
    .read(|worker| Sample::count(worker.received_bytes));

pub(super) static OF_REQUESTS: [Metric<StreamProgress>; 6] = [
    OPEN,
    Metric::more("sent_requests_total", "sent", Show::Count)
        .about("Requests written to a connection.")
        .read(|worker| Sample::count(worker.sent)),
    Metric::more("ok_requests_total", "ok", Show::Count)
        .about("Requests answered completely, with an expected status and body.")
        .read(|worker| Sample::count(worker.ok)),
    Metric::less("failed_requests_total", "failed", Show::Count)
        .about("Requests that failed.")
        .read(|worker| Sample::count(worker.failed)),
    SENT,
    RECEIVED,
];

pub(super) static OF_TRANSFERS: [Metric<StreamProgress>; 4] = [
    OPEN,
    SENT,
    RECEIVED,
    Metric::less("stalled_connections", "stalled", Show::Count)
        .about("Connections stalled now.")
        .read(|worker| Sample::count(worker.stalled)),
];

pub(super) static LATENCY: Metric<Histogram> = Metric::less("latency", "latency", Show::Nanoseconds)
    .about("Latency of successful requests from their intended start.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static CONNECT: Metric<Histogram> = Metric::less("connect", "connect", Show::Nanoseconds)
    .about("Time to open connections.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILURES: Metric<u64> =
    failures().about("Requests or connections in progress that failed, by cause.");

pub(super) static NOT_OPENED: Metric<u64> =
    Metric::less("not_opened_by_cause_total", "not opened", Show::Count)
        .about("Failed attempts to open a connection, by cause.")
        .read(|count| Sample::count(*count));
