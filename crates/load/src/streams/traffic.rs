//! The usual use of connections: request after request, each answered.

use super::counts::Histograms;
use super::metrics::{LATENCY, LiveStreams};
use super::protocol::{StreamProtocol, Traffic};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;

/// Requests and answers, at a rate or one after the other.
#[derive(Debug)]
pub struct Answered;

impl<P: StreamProtocol> Traffic<P> for Answered {
    const LASTS: bool = false;
    const COUNTED: &'static [Metric<LiveStreams>] = LiveStreams::OF_REQUESTS;
    const TIMED: &'static Metric<Histogram> = &LATENCY;
    const RATE: &'static [Metric<LiveStreams>] = &[LiveStreams::OK];

    fn times(histograms: &Histograms) -> &Histogram {
        &histograms.latency
    }
}
