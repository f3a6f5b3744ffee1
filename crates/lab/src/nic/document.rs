//! The document of `lab nic`, schema `corelane/nic/1`.

use crate::document::{Head, document};
use crate::trial::{TrialHead, TrialStatus, trial};
use corelane_measure::counters::Counters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/nic/1";

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// One entry per device model, including models that could not run.
    pub models: Vec<ModelReport>,
    /// The totals over all models.
    pub verdict: Verdict,
}

/// Totals over all models that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Frames sent.
    pub sent: u64,
    /// Frames that the guest's kernel received with all metadata.
    pub frames: u64,
    /// Frames whose hash equals the computed one.
    pub right_hash: u64,
    /// Frames received on the computed queue.
    pub right_queue: u64,
    /// Frames whose bucket by the kernel's classic BPF is the computed queue; `None` in documents of versions that did not
    /// run it.
    pub right_program: Option<u64>,
    /// Frames processed on the CPU that `explain` reports.
    pub right_cpu: u64,
    /// Whether a wrong key and a wrong table were detected in every round.
    pub wrong_rules_caught: bool,
    /// Whether everything matched, over at least 2,000 frames.
    pub passed: bool,
    /// What did not, each in one sentence.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// One device model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReport {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// The emulator's name of the model.
    pub model: String,
    /// Why it did not run.
    pub skipped: Option<String>,
    /// The guest's results.
    pub probed: Option<NicProbed>,
    /// Duration including boot. The device is emulated, so this is no measure of speed.
    pub took_seconds: Option<f64>,
}

/// The guest's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicProbed {
    /// The guest's kernel.
    pub kernel: String,
    /// The driver of its device.
    pub driver: String,
    /// Its receive queues.
    pub queues: usize,
    /// One entry per setting.
    pub rounds: Vec<RoundReport>,
}

/// One setting of the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// The device's key, in hexadecimal: the one that was set, or the kernel's if the driver takes no other.
    pub key: String,
    /// Whether key, table and fields read back as they were set.
    pub reads_back: bool,
    /// Entries that name each queue.
    pub entries_by_queue: Vec<usize>,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub frames: u64,
    /// Frames by hash type.
    pub types: BTreeMap<String, TypeReport>,
    /// Frames by receive queue.
    pub frames_by_queue: BTreeMap<u16, u64>,
    /// Frames processed on the CPU that `explain` reports, for whole packets and for fragments.
    pub right_cpu: u64,
    /// Frames by queue and CPU.
    pub cpus: Vec<CpuReport>,
    /// Frames too short to be identified.
    pub too_short: u64,
    /// Frames with incomplete metadata.
    pub incomplete: u64,
    /// Frames with hash zero.
    pub without_hash: u64,
    /// How the counts by type differ from the verifier's: one of the two is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
    /// Verification against a wrong key.
    pub wrong_key: Caught,
    /// Verification against a wrong table.
    pub wrong_table: Caught,
}

/// The frames of one hash type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeReport {
    /// Frames received.
    pub frames: u64,
    /// Frames with the computed hash.
    pub right_hash: u64,
    /// Frames on the computed queue.
    pub right_queue: u64,
    /// Frames for which the program that steers sockets by the type's fields returns the computed queue.
    pub right_program: Option<u64>,
}

/// Frames of one queue that were processed on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuReport {
    /// The queue.
    pub queue: Option<u16>,
    /// The CPU that `explain` reports for the queue.
    pub named: Option<u32>,
    /// The CPU that processed the frames.
    pub seen: u32,
    /// The number of frames.
    pub frames: u64,
}

/// Result of verifying frames against a wrong key or table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caught {
    /// Frames on a queue other than the computed one.
    pub misplaced: u64,
    /// Frames with the computed hash.
    pub right_hash: u64,
}

/// Fewest frames, over all hash types, that prove anything.
const LEAST_FRAMES: u64 = 2_000;

document!(NicReport, [SCHEMA]);

trial!(ModelReport, named: model);

impl Verdict {
    /// The totals of some models.
    pub(super) fn of(models: &[ModelReport]) -> Self {
        let probed = models.iter().filter_map(|model| model.probed.as_ref());
        let rounds: Vec<&RoundReport> = probed.flat_map(|probed| &probed.rounds).collect();
        let sum = |count: fn(&RoundReport) -> u64| -> u64 {
            Counters::sum(rounds.iter().map(|round| count(round)))
        };
        let of_types = |count: fn(&TypeReport) -> u64| {
            let types = rounds.iter().flat_map(|round| round.types.values());
            <u64 as Counters>::sum(types.map(count))
        };
        let counts: [fn(&RoundReport) -> u64; 3] = [|of| of.sent, |of| of.frames, |of| of.right_cpu];
        let [sent, frames, right_cpu] = counts.map(sum);
        let (right_hash, right_queue) = (of_types(|of| of.right_hash), of_types(|of| of.right_queue));
        let right_program = of_types(|of| of.right_program.unwrap_or(0));
        let wrong_rules_caught = rounds.iter().all(|round| round.catches_wrong_rules());
        let none_failed = models
            .iter()
            .all(|model| model.head.status != TrialStatus::Failed);
        let mut faults = Vec::new();
        let mut fault = |is: bool, words: String| faults.extend(is.then_some(words));
        fault(!none_failed, "a model failed".to_owned());
        fault(
            frames < LEAST_FRAMES && none_failed,
            format!("{frames} frames prove too little: send {LEAST_FRAMES} or more with a higher --flows"),
        );
        let (missing, more) = (sent.saturating_sub(frames), frames.saturating_sub(sent));
        fault(missing > 0, format!("{missing} frames were not received"));
        fault(more > 0, format!("{more} frames came that were not sent"));
        for (right, what) in [
            (right_hash, "hash"),
            (right_queue, "queue"),
            (right_program, "queue by the steering program"),
            (right_cpu, "CPU"),
        ] {
            fault(
                right != frames,
                format!("{right} of {frames} frames have the computed {what}"),
            );
        }
        for round in &rounds {
            round.faults().for_each(|words| fault(true, words));
        }
        Self {
            sent,
            frames,
            right_hash,
            right_queue,
            right_program: Some(right_program),
            right_cpu,
            wrong_rules_caught,
            passed: faults.is_empty(),
            faults,
        }
    }

    /// The counts in words.
    pub(super) fn counts(&self) -> String {
        let by_program = self
            .right_program
            .map(|right| format!("{right} by the steering program, "));
        format!(
            "{} frames of {} sent: {} with the hash, {} by the queue, {}{} on the CPU that was computed",
            self.frames,
            self.sent,
            self.right_hash,
            self.right_queue,
            by_program.unwrap_or_default(),
            self.right_cpu,
        )
    }
}

impl RoundReport {
    /// What is wrong with this round besides its sums.
    fn faults(&self) -> impl Iterator<Item = String> {
        let (queues, used) = (self.entries_by_queue.len(), self.frames_by_queue.len());
        let faults = [
            (!self.reads_back).then(|| "key, table or fields do not read back as set".to_owned()),
            (self.without_hash > 0).then(|| format!("{} frames have no hash", self.without_hash)),
            (used != queues).then(|| format!("{used} of {queues} queues received frames")),
            (!self.catches_wrong_rules()).then(|| "a wrong key or table was not detected".to_owned()),
            self.disagreement.clone(),
        ];
        faults.into_iter().flatten()
    }

    /// A wrong table misplaces every frame, because it maps each entry to another queue. A wrong key changes every
    /// hash, and the queue of most frames.
    fn catches_wrong_rules(&self) -> bool {
        self.wrong_table.misplaced == self.frames
            && self.wrong_key.misplaced > 0
            && self.wrong_key.right_hash < self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round() -> RoundReport {
        let right = TypeReport {
            frames: 2_000,
            right_hash: 2_000,
            right_queue: 2_000,
            right_program: Some(2_000),
        };
        RoundReport {
            reads_back: true,
            entries_by_queue: vec![1, 3],
            sent: 2_000,
            frames: 2_000,
            types: BTreeMap::from([("IPV4".to_owned(), right)]),
            frames_by_queue: BTreeMap::from([(0, 1_000), (1, 1_000)]),
            right_cpu: 2_000,
            wrong_key: Caught {
                misplaced: 900,
                right_hash: 0,
            },
            wrong_table: Caught {
                misplaced: 2_000,
                right_hash: 2_000,
            },
            ..RoundReport::default()
        }
    }

    fn judged(models: Vec<ModelReport>) -> Verdict {
        Verdict::of(&models)
    }

    fn passes(models: Vec<ModelReport>) -> bool {
        judged(models).passed
    }

    #[test]
    fn too_few_frames_are_named_as_the_reason() {
        let mut few = round();
        let right = TypeReport {
            frames: 400,
            right_hash: 400,
            right_queue: 400,
            right_program: Some(400),
        };
        (few.sent, few.frames, few.right_cpu, few.wrong_table.misplaced) = (400, 400, 400, 400);
        few.types = BTreeMap::from([("IPV4".to_owned(), right)]);
        let verdict = judged(vec![model(few)]);
        let why = "400 frames prove too little: send 2000 or more with a higher --flows";
        assert_eq!((verdict.passed, verdict.faults), (false, vec![why.to_owned()]));
    }

    fn model(round: RoundReport) -> ModelReport {
        let probed = NicProbed {
            kernel: String::new(),
            driver: String::new(),
            queues: 2,
            rounds: vec![round],
        };
        ModelReport {
            model: "virtio-net".to_owned(),
            probed: Some(probed),
            ..ModelReport::default()
        }
    }

    #[test]
    fn only_a_round_without_any_fault_passes() {
        assert!(passes(vec![model(round())]));
        let faults: [fn(&mut RoundReport); 10] = [
            |round| round.disagreement = Some("1 frame by type, 2 by the verifier".to_owned()),
            |round| round.reads_back = false,
            |round| round.sent += 1,
            |round| round.right_cpu -= 1,
            |round| round.without_hash = 1,
            |round| round.wrong_table.misplaced -= 1,
            |round| round.wrong_key.misplaced = 0,
            |round| round.types.get_mut("IPV4").unwrap().right_queue -= 1,
            |round| round.types.get_mut("IPV4").unwrap().right_program = Some(1_999),
            |round| {
                round.frames_by_queue.remove(&1);
            },
        ];
        for fault in faults {
            let mut faulty = round();
            fault(&mut faulty);
            assert!(!passes(vec![model(faulty.clone())]), "{faulty:?}");
            assert!(!judged(vec![model(faulty)]).faults.is_empty());
        }
        assert!(!passes(Vec::new()));
        let mut failed = ModelReport::default();
        failed.head.end(TrialStatus::Failed, "the guest did not end");
        assert!(!passes(vec![model(round()), failed]));
    }
}
