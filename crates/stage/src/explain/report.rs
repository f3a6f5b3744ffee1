//! What is found: the document `corelane/bridge-explain/1`.

use corelane_measure::words;
use corelane_packet::HashTypes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words!(Cause);

/// Which frames change bucket, by the fields that are hashed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/bridge-explain/1")]
pub struct Explanation {
    /// Frames read.
    pub frames: u64,
    /// Those of them without a readable IP header; they have no hash, unless they have an IP header behind labels.
    pub not_ip: u64,
    /// Those of them that are fragments.
    pub fragments: u64,
    /// Frames of which the end is known: all but fragments whose datagram did not become whole, and what was dropped. All
    /// further counts are of these.
    pub arrived: u64,
    /// Those of them that were in a tunnel.
    pub from_tunnels: u64,
    /// Flows of the packets at the end.
    pub flows: u64,
    /// The number of buckets.
    pub buckets: u16,
    /// By the fields that are hashed.
    pub fields: Vec<FieldsExplained>,
    /// The hash types that the changes below are of.
    pub hash_types: String,
    /// The first frames that change bucket, in the order in which that is known.
    pub changes: Vec<Change>,
    /// The counts of reassembly and decapsulation, by name.
    pub stages: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What happens with some hash fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldsExplained {
    /// Their name.
    pub fields: String,
    /// The hash types.
    pub hash_types: String,
    /// Frames that change bucket.
    pub change: u64,
    /// The same by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Flows whose frames arrive on several buckets.
    pub flows_on_several: u64,
    /// Frames of the fullest bucket over the mean, as they arrive; 1 if all are level.
    pub imbalance_before: Option<f64>,
    /// The same of what comes of them.
    pub imbalance_after: Option<f64>,
}

/// Why a frame changes bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The first fragment of a datagram, hashed by addresses alone, as devices do with all fragments.
    FirstFragment,
    /// Another fragment.
    LaterFragment,
    /// It is in a tunnel, whose addresses and ports are hashed.
    Tunnel,
    /// The hash is the same, but the entry that it selects names another bucket than that of the device.
    Entry,
}

/// A frame that changes bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its number in the capture, from 1.
    pub frame: u64,
    /// Why.
    pub cause: Cause,
    /// The bucket that it arrives on.
    pub from: usize,
    /// The type of the hash that selects it; null if there is none.
    pub hashed: Option<String>,
    /// The bucket of what comes of it.
    pub to: usize,
    /// The type of the hash that selects that one.
    pub hashed_then: Option<String>,
    /// The flow of what comes of it; null if that is not IP.
    pub flow: Option<String>,
}

impl Explanation {
    pub(super) fn new(buckets: u16, types: HashTypes) -> Explanation {
        Explanation {
            buckets,
            hash_types: types.to_string(),
            ..Explanation::default()
        }
    }
}

impl FieldsExplained {
    pub(super) fn new(name: &str, types: HashTypes) -> FieldsExplained {
        FieldsExplained {
            fields: name.to_owned(),
            hash_types: types.to_string(),
            ..FieldsExplained::default()
        }
    }

    pub(super) fn add(&mut self, cause: Cause) {
        self.change += 1;
        *self.by_cause.entry(cause).or_default() += 1;
    }

    /// The same with what is known at the end.
    pub(super) fn with(&self, flows_on_several: u64, before: &[u64], after: &[u64]) -> FieldsExplained {
        FieldsExplained {
            flows_on_several,
            imbalance_before: imbalance(before),
            imbalance_after: imbalance(after),
            ..self.clone()
        }
    }
}

/// The fullest over the mean; `None` without frames.
fn imbalance(buckets: &[u64]) -> Option<f64> {
    let (sum, fullest) = (buckets.iter().sum::<u64>(), buckets.iter().max()?);
    (sum > 0).then(|| *fullest as f64 * buckets.len() as f64 / sum as f64)
}
