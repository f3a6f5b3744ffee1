//! What a receiver of packets saw: the document that `serve packets` ends with.

use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counts of a receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Received {
    /// `corelane/received-packets/1`.
    pub schema: String,
    /// The link's specification.
    pub link: String,
    /// Seconds from the first marked frame to the last; 0 with fewer than two.
    pub receiving_s: f64,
    /// Frames that came, of any kind.
    pub received: u64,
    /// Bytes of them, without check sequence.
    pub received_bytes: u64,
    /// Marked frames a second; `None` when they did not come for a measurable time.
    pub frames_per_s: Option<f64>,
    /// Frames with an intact mark.
    pub marked: u64,
    /// Frames of UDP that have no intact mark: changed on the way, or not the generator's.
    pub changed_or_foreign: u64,
    /// Frames that are not UDP, later fragments among them.
    pub not_udp: u64,
    /// Frames that found the link's receive ring full.
    pub receive_dropped: u64,
    /// What befell the frames before they are counted here, by name, where the link has faults: `dropped`, `truncated`,
    /// `corrupted`, `duplicated`, `reordered`, `delayed`, and `held` (held back still); none where it has none.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// All streams together.
    pub total: StreamReceived,
    /// Each stream: a queue of the generator.
    pub streams: Vec<StreamReceived>,
    /// From the intended send to the arrival; `None` with the reason in `latency_unknown`.
    pub latency: Option<Summary>,
    /// The same whole, as an HdrHistogram in V2 form.
    pub latency_histogram: Option<Histogram>,
    /// Why latency is unknown.
    pub latency_unknown: Option<String>,
    /// What ended it before its time: the loss of its link.
    #[serde(default)]
    pub ended_because: Option<String>,
}

/// What came of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReceived {
    /// Its number; none for the total.
    pub stream: Option<u16>,
    /// Frames that came for the first time.
    pub received: u64,
    /// Frames that did not come, of those up to the newest that did. What was lost after it, only the generator can tell.
    pub lost: u64,
    /// Frames that came again.
    pub duplicated: u64,
    /// Frames that were overtaken by a later one (counted in `received` too).
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
