//! Live counts of a UDP generator, and the metrics of a running one.

use crate::metrics::failures;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_worker::Counter;

/// What a worker counts while it runs.
#[derive(Debug, Default)]
pub struct LiveDatagrams {
    pub(super) sent: Counter,
    pub(super) returned: Counter,
}

impl LiveDatagrams {
    /// Accepted by the kernel.
    pub const SENT: Metric<Self> = Metric::more("sent_datagrams_total", "sent", Show::Count)
        .unit("datagrams")
        .about("Datagrams accepted by the kernel.")
        .read(|live| Sample::count(live.sent.get()));

    /// Returned intact.
    pub const RETURNED: Metric<Self> = Metric::more("returned_datagrams_total", "returned", Show::Count)
        .unit("datagrams")
        .about("Datagrams answered intact, duplicates excluded.")
        .read(|live| Sample::count(live.returned.get()));

    pub(super) const ALL: &'static [Metric<Self>] = &[Self::SENT, Self::RETURNED];
}

pub(super) static ROUND_TRIP: Metric<Histogram> = Metric::less("round_trip", "round trip", Show::Nanoseconds)
    .about("Round trips from the intended send time.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILED: [Metric<u64>; 1] = [failures()
    .about("Datagrams that were refused or caused an ICMP error, and answers not as expected, by cause.")];
