//! Live counts of a UDP generator, and the metrics of a running one.

use crate::metrics::{failures, live_counts};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};

live_counts! {
    /// What a worker counts while it runs.
    pub struct LiveDatagrams {
        more Count SENT sent: "sent_datagrams_total", "sent", "datagrams", "Datagrams accepted by the kernel.";
        more Count RETURNED returned: "returned_datagrams_total", "returned", "datagrams",
            "Datagrams answered intact, duplicates excluded.";
    }
}

pub(super) static ROUND_TRIP: Metric<Histogram> = Metric::less("round_trip", "round trip", Show::Nanoseconds)
    .about("Round trips from the intended send time.")
    .read(|times| Some(Sample::Durations(times)));

pub(super) static FAILED: [Metric<u64>; 1] = [failures()
    .about("Datagrams that were refused or caused an ICMP error, and answers not as expected, by cause.")];
