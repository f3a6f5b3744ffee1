//! Live counts of a packet generator, and the metrics of a running one.

use crate::metrics::{failures, live_counts};
use corelane_measure::metric::{Metric, Sample, Show};

live_counts! {
    /// What a worker counts while it runs, as of its last snapshot.
    pub struct LiveFrames {
        more Count SENT sent: "sent_frames_total", "sent", "frames", "Frames that the link accepted.";
        more Bytes SENT_BYTES sent_bytes: "sent_bytes_total", "sent", "bytes",
            "Bytes of frames that the link accepted, without frame check sequence.";
    }
}

pub(super) static FAILED: [Metric<u64>; 1] = [failures().about("Frames not sent, by cause.")];
