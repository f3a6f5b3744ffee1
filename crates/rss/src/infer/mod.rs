//! Infers what a device hashes, from samples of packets with their reported hash or queue: key, fields, dialect and
//! indirection table. The result also lists what is undetermined, and which samples would determine it.
//!
//! The Toeplitz hash is linear over GF(2), so no search is needed. Under each model of the hashed fields and their
//! mixing (`model.rs`), every known bit of a sample's hash is one equation of the key's bits and of an initial value.
//! Few samples determine the unknowns; a wrong model soon contradicts the rest (`fit.rs`). What the equations do not
//! determine is reported as unknown.
//!
//! Queues alone yield less, because the table between hash and queue is unknown (`queues.rs`).

mod consensus;
mod fit;
mod kind;
mod model;
mod need;
mod queues;
mod relation;
mod system;
mod table;

pub use consensus::contradicting;
pub use kind::Kind;
pub use model::{Field, Transform};
pub use relation::Relation;
pub use table::InferredTable;

use crate::hash::Protocol;
use crate::key::Key;
use crate::tuple::Tuple;
use fit::{Fit, solution};
use kind::KindSamples;
use model::Model;
use serde::{Serialize, Serializer};
use system::{KEY_BITS, System, Unknown};

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

/// Infers from samples; `configured` is the configured key of the device, if known.
#[must_use]
pub fn infer(samples: &[Sample], configured: Option<&Key>) -> Inference {
    let has_hash = |sample: &Sample| sample.hash.filter(|hash| *hash != 0);
    let without_hash = samples.iter().filter(|sample| has_hash(sample).is_none()).count();
    let mut inference = Inference {
        samples: samples.len(),
        without_hash,
        ..Inference::default()
    };
    if without_hash < samples.len() {
        let kinds = KindSamples::by_kind(samples, u32::MAX, has_hash);
        of_hashes(&mut inference, &kinds, configured);
        inference.table = table::of_hashes(
            samples
                .iter()
                .filter_map(|sample| Some((has_hash(sample)?, sample.queue?))),
        );
    } else {
        queues::infer(&mut inference, samples, configured);
    }
    if let Some(table) = inference.table.as_ref().filter(|table| table.unseen > 0) {
        let what = format!(
            "flows that fall on the {} entries of {} never seen",
            table.unseen, table.period
        );
        inference.needed.push(what);
    }
    if inference.verdict == Verdict::Settled && !inference.needed.is_empty() {
        inference.verdict = Verdict::NotEnough;
    }
    inference
}

/// Like [`infer`], but sets aside up to `most` samples that contradict the others. If more contradict, or if the wrong
/// ones cannot be determined, none is set aside. Only samples with hashes are checked in this way.
#[must_use]
pub fn infer_tolerating(samples: &[Sample], configured: Option<&Key>, most: usize) -> Inference {
    if most == 0 {
        return infer(samples, configured);
    }
    let set_aside = contradicting(samples, most).unwrap_or_default();
    let believed = samples.iter().enumerate();
    let believed = believed.filter(|(place, _)| set_aside.binary_search(place).is_err());
    let believed: Vec<Sample> = believed.map(|(_, sample)| *sample).collect();
    Inference {
        samples: samples.len(),
        set_aside,
        ..infer(&believed, configured)
    }
}

/// Infers from samples with known bits of their hash.
fn of_hashes(inference: &mut Inference, kinds: &[KindSamples], configured: Option<&Key>) {
    let fits: Vec<Vec<Fit>> = kinds.iter().map(Fit::simplest).collect();
    let contradicted = fits.iter().any(Vec::is_empty);
    let mut firm: Vec<(&KindSamples, &[Fit])> = Vec::new();
    for (samples, fits) in kinds.iter().zip(&fits) {
        let established = !contradicted && fits.iter().all(Fit::is_established);
        let model = established.then(|| fits[0].model);
        inference.kinds.push(InferredKind::new(samples, model));
        if established {
            firm.push((samples, fits));
        } else if !contradicted {
            let (kind, count) = (samples.kind, samples.observations.len());
            let too_few = format!("more samples of {kind}: {count} are too few");
            inference.needed.push(too_few);
        }
    }
    if firm.is_empty() {
        inference.verdict = match contradicted {
            true => Verdict::NothingFits,
            false => Verdict::NotEnough,
        };
        return;
    }
    let transforms = Transform::ALL.into_iter();
    let joints: Vec<Joint<'_>> = transforms
        .filter_map(|transform| Joint::new(transform, &firm))
        .collect();
    inference.transforms_that_fit = joints.iter().map(|joint| joint.transform).collect();
    let Some(joint) = joints.first() else {
        inference.verdict = Verdict::NothingFits;
        return;
    };
    joint.report(inference, configured);
    if joints.len() > 1 {
        inference.transform = None;
        inference.key_is_enough = false;
        inference
            .needed
            .push(need::of_transforms(kinds, &inference.transforms_that_fit));
    }
    inference.verdict = Verdict::Settled;
}

/// A transform that explains all kinds with enough samples, and the equations of all kinds.
struct Joint<'a> {
    transform: Transform,
    kinds: Vec<(&'a KindSamples, &'a Fit)>,
    system: System,
}

impl<'a> Joint<'a> {
    fn new(transform: Transform, firm: &[(&'a KindSamples, &'a [Fit])]) -> Option<Joint<'a>> {
        let of_kind = |(samples, fits): &(&'a KindSamples, &'a [Fit])| {
            let fit = fits.iter().find(|fit| fit.model.transform == transform)?;
            Some((*samples, fit))
        };
        let kinds: Vec<_> = firm.iter().map(of_kind).collect::<Option<_>>()?;
        let mut system = System::new();
        let agree = kinds.iter().all(|(_, fit)| system.merge(&fit.system));
        agree.then_some(Joint {
            transform,
            kinds,
            system,
        })
    }

    fn report(&self, inference: &mut Inference, configured: Option<&Key>) {
        inference.transform = Some(self.transform);
        let (key, _) = solution(&self.system, 0);
        inference.key = Some(key);
        inference.key_bits_settled = settled_ranges(&self.system);
        inference.relation = configured.and_then(|key| relation::of(key, &self.kinds));
        let needed = need::of_key(&self.kinds, &self.system);
        inference.key_is_enough = needed.is_empty();
        inference.needed.extend(needed);
        inference.needed.extend(need::of_fields(&inference.kinds));
        let mut initials = self.kinds.iter().map(|(samples, fit)| self.initial(samples, fit));
        let first = initials.next().flatten();
        inference.initial_value = first.filter(|_| initials.all(|other| other == first));
    }

    /// The initial value of a kind, unless constant fields may be part of it.
    fn initial(&self, samples: &KindSamples, fit: &Fit) -> Option<u32> {
        let complete =
            samples.known == u32::MAX && InferredKind::new(samples, Some(fit.model)).unknown.is_empty();
        let bits = samples.known_bits().map(|bit| {
            let value = self.system.settled(Unknown::Initial(samples.number, bit))?;
            Some(u32::from(value) << bit)
        });
        bits.sum::<Option<u32>>().filter(|_| complete)
    }
}

impl InferredKind {
    fn new(samples: &KindSamples, model: Option<Model>) -> InferredKind {
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

fn settled_ranges(system: &System) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for bit in (0..KEY_BITS).filter(|bit| system.settled(Unknown::Key(*bit)).is_some()) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => ranges.push((bit, bit)),
        }
    }
    ranges
}

fn hexadecimal<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(&format_args!("0x{value:08x}")),
        None => serializer.serialize_none(),
    }
}
