//! Samples of packets, and those of one kind.

use super::kind::Kind;
use super::model::{Field, Input};
use super::system::{Equation, HASH_BITS, KEY_BITS, System, Unknown};
use crate::audit::Family;
use crate::fields::HashFields;
use crate::hash::Protocol;
use crate::transform::Transform;
use crate::tuple::Tuple;
use std::collections::BTreeMap;

/// One packet, and the hash or queue that the device reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its addresses and ports; ports are ignored for protocols without ports.
    pub tuple: Tuple,
    /// Its protocol.
    pub protocol: Protocol,
    /// The hash that the device reported. Zero stands for no hash, as devices report it.
    pub hash: Option<u32>,
    /// The queue on which it arrived.
    pub queue: Option<u16>,
}

impl Sample {
    pub(super) fn kind(&self) -> Kind {
        let family = match self.tuple {
            Tuple::V4 { .. } => Family::V4,
            Tuple::V6 { .. } => Family::V6,
        };
        let protocol = self.protocol;
        Kind { family, protocol }
    }
}

/// The bytes of a packet, and the known bits of its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub input: Input,
    pub hash: u32,
}

/// The samples of one kind.
#[derive(Clone, Debug)]
pub(super) struct KindSamples {
    pub kind: Kind,
    /// Index of its initial value among the unknowns.
    pub number: usize,
    /// Mask of the known bits of every hash.
    pub known: u32,
    pub observations: Vec<Observation>,
}

impl KindSamples {
    /// Groups samples by kind; `observe` returns the hash of each, of which the `known` bits are valid.
    pub fn by_kind(
        samples: &[Sample],
        known: u32,
        observe: impl Fn(&Sample) -> Option<u32>,
    ) -> Vec<KindSamples> {
        let mut kinds: BTreeMap<usize, KindSamples> = BTreeMap::new();
        for sample in samples {
            let Some(hash) = observe(sample) else { continue };
            let kind = sample.kind();
            let number = 3 * kind.family as usize + kind.protocol as usize;
            let of_kind = kinds.entry(number).or_insert_with(|| KindSamples {
                kind,
                number,
                known,
                observations: Vec::new(),
            });
            let input = input(&sample.tuple);
            of_kind.observations.push(Observation { input, hash });
        }
        kinds.into_values().collect()
    }

    /// Bits of the hash that are known, the least significant first.
    pub fn known_bits(&self) -> impl Iterator<Item = usize> {
        let known = self.known;
        (0..HASH_BITS).filter(move |bit| known >> bit & 1 == 1)
    }

    /// Whether a field differs between samples.
    pub fn varies(&self, field: Field) -> bool {
        let bytes = field.bytes(self.kind.family);
        let first = &self.observations[0].input[bytes.clone()];
        self.observations
            .iter()
            .any(|one| &one.input[bytes.clone()] != first)
    }

    /// The observations whose transformed inputs are independent of the others, plus some dependent ones for a check.
    /// Sums of an odd number of others are omitted, because they follow from them.
    pub fn informative(&self, transform: Transform) -> Vec<Observation> {
        let mut span = System::new();
        let mut checks = CHECKS;
        let mut informative = Vec::new();
        for observation in &self.observations {
            // The bits of the input followed by a one, which makes sums affine.
            let mut row = Equation::of_input(&transform.apply(&observation.input, self.kind.family), 31);
            row.add(Unknown::Key(KEY_BITS - 1));
            let before = span.rank;
            span.take(row);
            if span.rank > before {
                informative.push(*observation);
            } else if checks > 0 {
                checks -= 1;
                informative.push(*observation);
            }
        }
        informative
    }
}

/// Number of dependent observations kept: enough evidence even with one known bit each.
const CHECKS: usize = 64;

fn input(tuple: &Tuple) -> Input {
    let mut input = [0; 36];
    let bytes = tuple.input(HashFields::FourTuple);
    let bytes = bytes.as_bytes();
    input[..bytes.len()].copy_from_slice(bytes);
    input
}
