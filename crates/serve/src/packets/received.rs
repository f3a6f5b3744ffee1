//! Results of a packet receiver: the final document of `serve packets`.

use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counters of a receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/received-packets/1")]
pub struct Received {
    /// The link's specification.
    pub link: String,
    /// Seconds from the first marked frame to the last; 0 with fewer than two.
    pub receiving_s: f64,
    /// Frames received, of any kind.
    pub received: u64,
    /// Bytes of these frames, without frame check sequence.
    pub received_bytes: u64,
    /// Marked frames per second; `None` if the duration was too short to measure.
    pub frames_per_s: Option<f64>,
    /// Frames with an intact mark.
    pub marked: u64,
    /// UDP frames without an intact mark: modified in transit, or not from the generator.
    pub changed_or_foreign: u64,
    /// Frames that are not UDP, including later fragments.
    pub not_udp: u64,
    /// Frames lost because the link's receive ring was full.
    pub receive_dropped: u64,
    /// Frames that arrived but were invalid: too long; in a capture, of a link layer that cannot be read, or cut off at the
    /// end of the file.
    #[serde(default)]
    pub receive_invalid: u64,
    /// Both by queue of the link, in order.
    #[serde(default)]
    pub queues: Vec<QueueReceived>,
    /// Frames affected by the link's faults before they were counted here, by fault: `dropped`, `truncated`,
    /// `corrupted`, `duplicated`, `reordered`, `delayed`, and `held` (still held back); `None` without faults.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// Sum over all streams.
    pub total: StreamReceived,
    /// Results by stream: one per queue of the generator.
    pub streams: Vec<StreamReceived>,
    /// From the intended send time to arrival; `None` with the reason in `latency_unknown`.
    pub latency: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub latency_histogram: Option<Histogram>,
    /// Why latency is unknown.
    pub latency_unknown: Option<String>,
    /// The error that ended it early: loss of its link.
    #[serde(default)]
    pub ended_because: Option<String>,
}

/// Frames of one queue of the link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReceived {
    /// The queue's index.
    pub queue: usize,
    /// Frames received, of any kind.
    pub received: u64,
    /// Frames lost because its receive ring was full.
    pub receive_dropped: u64,
}

/// Results of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReceived {
    /// Stream number; `None` for the total.
    pub stream: Option<u16>,
    /// Frames received, duplicates excluded.
    pub received: u64,
    /// Frames lost, up to the newest frame received. Only the generator can detect later losses.
    pub lost: u64,
    /// Duplicate frames.
    pub duplicated: u64,
    /// Frames overtaken by a later one (also counted in `received`).
    pub reordered: u64,
    /// Frames too far behind to be distinguished from duplicates.
    pub too_late: u64,
}

impl StreamReceived {
    /// Adds another stream's counts.
    pub(super) fn add(&mut self, other: &StreamReceived) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.too_late += other.too_late;
    }
}
