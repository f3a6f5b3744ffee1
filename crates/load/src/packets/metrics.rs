//! Live counts of a packet generator, and the metrics of a running one.

use crate::metrics::failures;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_worker::Counter;

/// What a worker counts while it runs, as of its last snapshot.
#[derive(Debug, Default)]
pub struct LiveFrames {
    pub(super) sent: Counter,
    pub(super) sent_bytes: Counter,
}

pub(super) static COUNTED: [Metric<LiveFrames>; 2] = [
    Metric::more("sent_frames_total", "sent", Show::Count)
        .unit("frames")
        .about("Frames that the link accepted.")
        .read(|live| Sample::count(live.sent.get())),
    Metric::more("sent_bytes_total", "sent", Show::Bytes)
        .unit("bytes")
        .about("Bytes of frames that the link accepted, without frame check sequence.")
        .read(|live| Sample::count(live.sent_bytes.get())),
];

pub(super) static FAILED: [Metric<u64>; 1] = [failures().about("Frames not sent, by cause.")];
