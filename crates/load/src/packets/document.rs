//! Results of a packet generator: the final document of `load packets`.

use crate::document::{LoadReport, RunOutcome};
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PacketsLoadReport {
    /// `corelane/loaded-packets/1`.
    pub schema: String,
    /// The link's specification.
    pub link: String,
    /// Seconds from the first send to the last.
    pub sending_s: f64,
    /// Frames of all streams.
    #[serde(flatten)]
    pub counts: FrameCounts,
    /// Frames per second; `None` if the duration was too short to measure.
    pub frames_per_s: Option<f64>,
    /// Frames affected by the link's faults while sending, by fault: `dropped`, `truncated`, `corrupted`, `duplicated`,
    /// `reordered`, `delayed`, and `held` (still held back); `None` if the link has no faults.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// Schedule lag of frames; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// How the run ended.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// Results by stream: one per queue of the link.
    pub streams: Vec<StreamLoadReport>,
}

counters! {
    /// Frames by outcome.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct FrameCounts {
        /// Frames that the link accepted; a capture's last ones may be lost in its buffer if the disk is full.
        pub sent: u64,
        /// Bytes of these frames, without frame check sequence.
        pub sent_bytes: u64,
        /// Frames on the schedule that were not sent before the end of the run.
        pub unsent: u64,
        /// Frames not sent, by reason: `oversized` (captured frame longer than the link allows), `not_read` (captured
        /// frame of a link layer that cannot be read, or cut off at the end of the file), `refused` (by the device,
        /// after the link accepted it).
        pub dropped: BTreeMap<String, u64>,
        /// Times that the link was full and the generator retried.
        pub waits_for_room: u64,
        /// Captured frames sent truncated, as in the capture; 0 for generated frames.
        pub sent_cut_short: u64,
    }
}

/// What several runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketsSum {
    /// Frames of all runs.
    #[serde(flatten)]
    pub counts: FrameCounts,
    /// Frames per second, as if all had run at the same time; `None` if no run was long enough to measure.
    pub frames_per_s: Option<f64>,
    /// Frames affected by faults while sending, by fault; `None` if no link has faults.
    pub faults: Option<BTreeMap<String, u64>>,
}

impl LoadReport for PacketsLoadReport {
    const SCHEMA: &'static str = "corelane/loaded-packets/1";
    type Sum = PacketsSum;

    fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    fn outcome_mut(&mut self) -> &mut RunOutcome {
        &mut self.outcome
    }

    fn check(&self) -> Result<(), String> {
        let sum =
            |count: fn(&StreamLoadReport) -> u64| self.streams.iter().map(count).fold(0, u64::saturating_add);
        let FrameCounts { sent, sent_bytes, .. } = self.counts;
        match (sent, sent_bytes) == (sum(|stream| stream.sent), sum(|stream| stream.sent_bytes)) {
            true => Ok(()),
            false => Err(format!(
                "{sent} frames of {sent_bytes} bytes are not the sum of the streams"
            )),
        }
    }

    fn sum(reports: &[Self]) -> PacketsSum {
        let faults = reports.iter().filter_map(|run| run.faults.clone());
        let rates = reports.iter().filter_map(|run| run.frames_per_s);
        PacketsSum {
            counts: FrameCounts::sum(reports.iter().map(|run| &run.counts)),
            frames_per_s: rates.reduce(|sum, rate| sum + rate),
            faults: faults.reduce(|sum, faults| sum.plus(&faults)),
        }
    }
}

/// Results of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamLoadReport {
    /// Stream number in its marks; `None` for replayed frames.
    pub stream: Option<u16>,
    /// The queue.
    pub queue: String,
    /// CPU of the worker.
    pub cpu: u32,
    /// Flows that take turns; `None` if every packet has a random flow, or frames are replayed.
    pub flows: Option<usize>,
    /// Frames that the link accepted.
    pub sent: u64,
    /// Bytes of these frames.
    pub sent_bytes: u64,
}
