//! What was found: a document of schema `corelane/nic/1`.

use crate::document::{Head, document};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/nic/1";

/// The whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// One a model of device, those that could not run included.
    pub models: Vec<ModelReport>,
    /// All of them together.
    pub verdict: Verdict,
}

/// All frames of all models that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Frames sent.
    pub sent: u64,
    /// Frames that the guest's kernel received, with all that was said of them.
    pub frames: u64,
    /// Those with the hash that the rule gives.
    pub right_hash: u64,
    /// Those that came by the queue that the rule gives.
    pub right_queue: u64,
    /// Those that were seen on the CPU that `explain` names.
    pub right_cpu: u64,
    /// Whether a wrong key and a wrong table were caught in every round.
    pub wrong_rules_caught: bool,
    /// Whether all is as it has to be, over at least 2,000 frames.
    pub passed: bool,
}

/// One model of device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its name, as the emulator has it.
    pub model: String,
    /// Why it did not run.
    pub skipped: Option<String>,
    /// What the guest found.
    pub probed: Option<NicProbed>,
    /// How long it took, boot included; of an emulator, so it says nothing about any speed.
    pub took_seconds: Option<f64>,
}

/// What the guest's side found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicProbed {
    /// The guest's kernel.
    pub kernel: String,
    /// The driver of its device.
    pub driver: String,
    /// Its receive queues.
    pub queues: usize,
    /// One a setting.
    pub rounds: Vec<RoundReport>,
}

/// One setting of the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// The key that was set, in hexadecimal.
    pub key: String,
    /// Whether key, table and fields read back as they were set.
    pub reads_back: bool,
    /// Entries that name each queue.
    pub entries_by_queue: Vec<usize>,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub frames: u64,
    /// By hash type.
    pub types: BTreeMap<String, TypeReport>,
    /// By the queue that they came by.
    pub frames_by_queue: BTreeMap<u16, u64>,
    /// Those seen on the CPU that `explain` names, of whole packets and of fragments.
    pub right_cpu: u64,
    /// Where the frames of each queue were seen.
    pub cpus: Vec<CpuReport>,
    /// Frames that were too short to be told anything of.
    pub too_short: u64,
    /// Frames of which not all was said.
    pub incomplete: u64,
    /// Frames whose hash was zero.
    pub without_hash: u64,
    /// What the verifier finds when it is told a wrong key.
    pub wrong_key: Caught,
    /// What it finds when it is told a wrong table.
    pub wrong_table: Caught,
}

/// The frames of one hash type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeReport {
    /// Received.
    pub frames: u64,
    /// With the hash that the rule gives.
    pub right_hash: u64,
    /// By the queue that the rule gives.
    pub right_queue: u64,
}

/// Frames of one queue that were seen on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuReport {
    /// The queue.
    pub queue: Option<u16>,
    /// The CPU that `explain` names for them.
    pub named: Option<u32>,
    /// The CPU that they were seen on.
    pub seen: u32,
    /// How many.
    pub frames: u64,
}

/// What holding frames to a wrong rule finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caught {
    /// Frames by another queue than it names.
    pub misplaced: u64,
    /// Frames with the hash that it names.
    pub right_hash: u64,
}

/// Frames over all hash types that prove something.
const LEAST_FRAMES: u64 = 2_000;

document!(NicReport, [SCHEMA]);

impl NicReport {
    /// What the models come to.
    pub(super) fn judged(&self) -> Verdict {
        let probed = self.models.iter().filter_map(|model| model.probed.as_ref());
        let rounds: Vec<&RoundReport> = probed.flat_map(|probed| &probed.rounds).collect();
        let sum = |count: fn(&RoundReport) -> u64| rounds.iter().map(|round| count(round)).sum();
        let of_types = |count: fn(&TypeReport) -> u64| {
            let types = rounds.iter().flat_map(|round| round.types.values());
            types.map(count).sum()
        };
        let mut verdict = Verdict {
            sent: sum(|round| round.sent),
            frames: sum(|round| round.frames),
            right_hash: of_types(|of_type| of_type.right_hash),
            right_queue: of_types(|of_type| of_type.right_queue),
            right_cpu: sum(|round| round.right_cpu),
            wrong_rules_caught: rounds.iter().all(|round| round.catches_wrong_rules()),
            passed: false,
        };
        let Verdict {
            frames: all,
            sent,
            right_hash,
            right_queue,
            right_cpu,
            wrong_rules_caught,
            ..
        } = verdict;
        let is_sound = |round: &&RoundReport| {
            let every_queue = round.frames_by_queue.len() == round.entries_by_queue.len();
            round.reads_back && round.without_hash == 0 && every_queue
        };
        verdict.passed = all >= LEAST_FRAMES
            && [sent, right_hash, right_queue, right_cpu] == [all; 4]
            && rounds.iter().all(is_sound)
            && wrong_rules_caught;
        verdict
    }
}

impl RoundReport {
    /// A wrong table misplaces every frame, as it names another queue for each entry; a wrong key gives some other hash for
    /// each, and with it some other queue for most.
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

    fn passes(models: Vec<ModelReport>) -> bool {
        let report = NicReport {
            head: Head::default(),
            models,
            verdict: Verdict::default(),
        };
        report.judged().passed
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
            skipped: None,
            probed: Some(probed),
            took_seconds: None,
        }
    }

    #[test]
    fn only_a_round_without_any_fault_passes() {
        assert!(passes(vec![model(round())]));
        let faults: [fn(&mut RoundReport); 8] = [
            |round| round.reads_back = false,
            |round| round.sent += 1,
            |round| round.right_cpu -= 1,
            |round| round.without_hash = 1,
            |round| round.wrong_table.misplaced -= 1,
            |round| round.wrong_key.misplaced = 0,
            |round| round.types.get_mut("IPV4").unwrap().right_queue -= 1,
            |round| {
                round.frames_by_queue.remove(&1);
            },
        ];
        for fault in faults {
            let mut faulty = round();
            fault(&mut faulty);
            assert!(!passes(vec![model(faulty.clone())]), "{faulty:?}");
        }
        assert!(!passes(Vec::new()));
    }
}
