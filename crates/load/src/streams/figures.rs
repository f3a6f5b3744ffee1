//! The figures of a run that gates may name.

use super::loaded::StreamLoaded;
use super::tls::TlsLoaded;
use corelane_measure::histogram::Summary;
use corelane_measure::metric::Show::{self, Bytes, Nanoseconds, Prefixed, Share};
use corelane_report::gate::Figure;

/// Every figure, with what it is.
pub const FIGURES: &[Figure] = &[
    figure("p50", Nanoseconds, "median latency"),
    figure(
        "p90",
        Nanoseconds,
        "latency that nine in ten requests did not exceed",
    ),
    figure("p99", Nanoseconds, "latency that 99 in 100 did not exceed"),
    figure("p999", Nanoseconds, "latency that 999 in 1,000 did not exceed"),
    figure("max", Nanoseconds, "longest latency"),
    figure("mean", Nanoseconds, "mean latency"),
    figure(
        "lag_p99",
        Nanoseconds,
        "schedule lag that 99 in 100 requests did not exceed",
    ),
    figure(
        "handshake_p99",
        Nanoseconds,
        "duration that 99 in 100 TLS handshakes did not exceed",
    ),
    figure("resumed", Share, "resumed TLS handshakes as a share of all"),
    figure("rate", Prefixed, "successful requests a second"),
    figure("ok", Prefixed, "successful requests"),
    figure("failed", Share, "failed requests as a share of those begun"),
    figure("unsent", Prefixed, "requests on the schedule that were not sent"),
    figure("open", Prefixed, "connections open at the end"),
    figure("throughput", Bytes, "bytes received a second"),
];

const fn figure(name: &'static str, show: Show, about: &'static str) -> Figure {
    Figure { name, show, about }
}

impl<P> StreamLoaded<P> {
    /// The value of one of [`FIGURES`]; `None` where the run has none.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        let counts = &self.counts;
        let latency = |pick: fn(&Summary) -> u64| counts.latency.as_ref().map(|summary| pick(summary) as f64);
        match name {
            "p50" => latency(|summary| summary.p50_ns),
            "p90" => latency(|summary| summary.p90_ns),
            "p99" => latency(|summary| summary.p99_ns),
            "p999" => latency(|summary| summary.p999_ns),
            "max" => latency(|summary| summary.max_ns),
            "mean" => counts.latency.map(|summary| summary.mean_ns),
            "lag_p99" => counts.schedule_lag.map(|summary| summary.p99_ns as f64),
            "handshake_p99" => counts.handshake.map(|summary| summary.p99_ns as f64),
            "resumed" => counts.tls.as_ref().and_then(TlsLoaded::resumed),
            "rate" => Some(self.requests_per_second),
            "ok" => Some(counts.requests.ok as f64),
            "failed" if counts.requests.begun > 0 => {
                Some(counts.requests.failed as f64 / counts.requests.begun as f64)
            }
            "unsent" => Some(counts.requests.unsent as f64),
            "open" => Some(counts.connections.open_at_end as f64),
            "throughput" if self.running_s > 0.0 => Some(counts.bytes.received as f64 / self.running_s),
            _ => None,
        }
    }
}
