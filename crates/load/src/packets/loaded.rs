//! What a generator of packets sent: the document that `load packets` ends with.

use corelane_measure::histogram::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PacketsLoaded {
    /// `corelane/loaded-packets/1`.
    pub schema: String,
    /// The link's specification.
    pub link: String,
    /// Seconds from the first send to the last.
    pub sending_s: f64,
    /// Frames that the link took.
    pub sent: u64,
    /// Bytes of them, without check sequence.
    pub sent_bytes: u64,
    /// Frames a second; `None` when nothing was sent for a measurable time.
    pub frames_per_s: Option<f64>,
    /// Frames on the schedule that were not sent before the run ended.
    pub unsent: u64,
    /// Frames that did not go out, by reason: `oversized` (replayed and longer than the link takes), `refused` (by the
    /// device, after the link took them).
    pub dropped: BTreeMap<String, u64>,
    /// What befell the frames on their way out, by name, where the link has faults: `dropped`, `truncated`, `corrupted`,
    /// `duplicated`, `reordered`, `delayed`, and `held` (held back still); none where it has none.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// Times that the link had no room and the generator tried again.
    pub waits_for_room: u64,
    /// Frames of the capture that were sent cut short, as they were captured; 0 where frames are made.
    pub sent_cut_short: u64,
    /// How late frames left behind their schedule; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// What kept the generator from doing what it was told, when something did.
    pub limited_by: Option<String>,
    /// Each stream: a queue of the link.
    pub streams: Vec<StreamLoaded>,
}

/// One stream's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamLoaded {
    /// Its number, which its marks carry; none of replayed frames.
    pub stream: Option<u16>,
    /// The queue.
    pub queue: String,
    /// The CPU that it was sent from.
    pub cpu: u32,
    /// Flows that take turns; none where every packet has one of its own, or frames are replayed.
    pub flows: Option<usize>,
    /// Frames that the link took.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
}
