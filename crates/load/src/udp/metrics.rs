//! Live counts of a UDP generator, and the metrics of a running one.

use crate::metrics::failures;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};

/// Progress in datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Accepted by the kernel.
    pub sent: u64,
    /// Returned intact, duplicates excluded.
    pub returned: u64,
}

pub(super) static WORKER: [Metric<Progress>; 2] = [
    Metric::more("sent_datagrams_total", "sent", Show::Count)
        .about("Datagrams accepted by the kernel.")
        .read(|worker| Sample::count(worker.sent)),
    Metric::more("returned_datagrams_total", "returned", Show::Count)
        .about("Datagrams answered intact, duplicates excluded.")
        .read(|worker| Sample::count(worker.returned)),
];

pub(super) static ROUND_TRIP: Metric<Histogram> = Metric::less("round_trip", "round trip", Show::Nanoseconds)
    .about("Round trips from the intended send time.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILURES: Metric<u64> = failures()
    .about("Datagrams that were refused or caused an ICMP error, and answers not as expected, by cause.");
