//! The result of an inference.

use super::kind::Kind;
use super::model::{Field, Model};
use super::relation::Relation;
use super::samples::KindSamples;
use super::table::InferredTable;
use crate::key::Key;
use crate::transform::Transform;
use serde::{Serialize, Serializer};

/// Result of the inference.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inference {
    /// How complete the result is.
    pub verdict: Verdict,
    /// Number of samples.
    pub samples: usize,
    /// Those without a hash, or with a hash of zero.
    pub without_hash: usize,
    /// How the two ends of a flow are mixed, if determined.
    pub transform: Option<Transform>,
    /// The transforms that fit the samples.
    pub transforms_that_fit: Vec<Transform>,
    /// A key that explains all samples: the determined bits of the key, and zeros elsewhere.
    pub key: Option<Key>,
    /// Determined bits of the key, as ranges including the last bit; a symmetric transform reveals only sums of bits.
    pub key_bits_settled: Vec<(usize, usize)>,
    /// Whether the key reproduces the device's hash of every packet of the sampled kinds.
    pub key_is_enough: bool,
    /// Relation of the device's key to the configured key.
    pub relation: Option<Relation>,
    /// The initial value, if it is the same for all kinds.
    #[serde(serialize_with = "hexadecimal")]
    pub initial_value: Option<u32>,
    /// By kind of packet.
    pub kinds: Vec<InferredKind>,
    /// The indirection table.
    pub table: Option<InferredTable>,
    /// Samples that would determine more.
    pub needed: Vec<String>,
    /// Samples that contradict the others and were excluded, by index from 0.
    pub set_aside: Vec<usize>,
}

/// How complete the result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything that the sampled kinds of packets can reveal is determined.
    Settled,
    /// The reported values are certain, and more samples would reveal more.
    #[default]
    NotEnough,
    /// The hashes are explained, and no indirection table gives the samples their queues.
    NoTableFits,
    /// No tried model explains the samples.
    NothingFits,
}

/// How packets of one kind are hashed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InferredKind {
    /// Family and protocol.
    pub kind: Kind,
    /// Number of its samples.
    pub samples: usize,
    /// Whether a model explains them, and coincidence is ruled out.
    pub explained: bool,
    /// Fields that are hashed.
    pub hashed: Vec<Field>,
    /// Fields that vary between samples without affecting the hash.
    pub not_hashed: Vec<Field>,
    /// Fields that never vary, and of which nothing is known.
    pub unknown: Vec<Field>,
}

impl InferredKind {
    pub(super) fn new(samples: &KindSamples, model: Option<Model>) -> InferredKind {
        let mut inferred = InferredKind {
            kind: samples.kind,
            samples: samples.observations.len(),
            explained: model.is_some(),
            hashed: Vec::new(),
            not_hashed: Vec::new(),
            unknown: Vec::new(),
        };
        let Some(model) = model else {
            return inferred;
        };
        let possible = if samples.kind.has_ports() { 4 } else { 2 };
        for field in Field::ALL.into_iter().take(possible) {
            if model.fields.contains(field) {
                inferred.hashed.push(field);
            } else if samples.varies(field) {
                inferred.not_hashed.push(field);
            } else {
                inferred.unknown.push(field);
            }
        }
        inferred
    }
}

fn hexadecimal<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(&format_args!("0x{value:08x}")),
        None => serializer.serialize_none(),
    }
}
