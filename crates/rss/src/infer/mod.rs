//! What a device really hashes: samples of packets, with the hash or the queue that the device gave each, enter; the key,
//! fields, dialect and table that explain them leave, with what is not settled and which samples would settle it.
//!
//! The Toeplitz hash is linear over GF(2), so nothing is searched for. Every known bit of a sample's hash is one equation of
//! the key's bits and of an initial value, for each way in which the fields may be chosen and mixed (`model.rs`). Few
//! samples settle the unknowns; a wrong way contradicts the rest at once (`fit.rs`). What the equations do not settle is
//! not guessed: it is said to be unknown.
//!
//! Of queues alone less can be told, since they are the hash seen through an unknown table (`queues.rs`).

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

/// One packet, and what the device said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its addresses and ports; ports of what has none are not looked at.
    pub tuple: Tuple,
    /// What it carries.
    pub protocol: Protocol,
    /// The hash that the device reported. Zero stands for no hash, as devices report it.
    pub hash: Option<u32>,
    /// The queue that it came by.
    pub queue: Option<u16>,
}

/// What is known of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inference {
    /// How far the samples led.
    pub verdict: Verdict,
    /// Samples that entered.
    pub samples: usize,
    /// Those without a hash, or with a hash of zero.
    pub without_hash: usize,
    /// How the two ends of a flow are mixed, where that is settled.
    pub transform: Option<Transform>,
    /// What fits the samples so far.
    pub transforms_that_fit: Vec<Transform>,
    /// A key that explains all samples: the key itself in its settled bits, zeros in the others.
    pub key: Option<Key>,
    /// Bits of the key that are settled, as ranges, last bit included; a symmetric transform shows sums of bits only.
    pub key_bits_settled: Vec<(usize, usize)>,
    /// Does the key hash every packet of the kinds sampled as the device does?
    pub key_is_enough: bool,
    /// How the device's key follows from the key that it was given.
    pub relation: Option<Relation>,
    /// What the sum starts from, where all kinds agree on it.
    #[serde(serialize_with = "hexadecimal")]
    pub initial_value: Option<u32>,
    /// By kind of packet.
    pub kinds: Vec<InferredKind>,
    /// From hash to queue.
    pub table: Option<InferredTable>,
    /// Samples that would settle more.
    pub needed: Vec<String>,
    /// Samples that contradict the others and were not inferred from, by their place from 0.
    pub set_aside: Vec<usize>,
}

/// How far the samples led.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that can be told of the kinds of packets sampled is.
    Settled,
    /// What is reported is certain, and more samples would show more.
    #[default]
    NotEnough,
    /// Nothing that is tried explains the samples.
    NothingFits,
}

/// How packets of one kind are hashed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InferredKind {
    /// Family and protocol.
    pub kind: Kind,
    /// Samples of it.
    pub samples: usize,
    /// Is there a model that explains them, and not by chance?
    pub explained: bool,
    /// Fields that are hashed.
    pub hashed: Vec<Field>,
    /// Fields that vary between samples without the hash following.
    pub not_hashed: Vec<Field>,
    /// Fields that never vary, so that nothing is known of them.
    pub unknown: Vec<Field>,
}

/// Infers from samples; `configured` is the key that the device was given, if known.
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

/// As [`infer`], of samples of which at most `most` may contradict the others: those are set aside. Where more do, or where it
/// cannot be told which are wrong, none is. Only samples with hashes are judged so.
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

/// What samples with known bits of their hash show.
fn of_hashes(inference: &mut Inference, kinds: &[KindSamples], configured: Option<&Key>) {
    let fits: Vec<Vec<Fit>> = kinds.iter().map(Fit::simplest).collect();
    let established = |fits: &[Fit]| !fits.is_empty() && fits.iter().all(Fit::is_established);
    if fits.iter().any(Vec::is_empty) {
        inference.verdict = Verdict::NothingFits;
        inference.kinds = kinds
            .iter()
            .map(|samples| InferredKind::new(samples, None))
            .collect();
        return;
    }
    let firm: Vec<usize> = (0..kinds.len())
        .filter(|kind| established(&fits[*kind]))
        .collect();
    for (number, samples) in kinds.iter().enumerate() {
        let model = firm.contains(&number).then(|| fits[number][0].model);
        if model.is_none() {
            let (kind, count) = (samples.kind, samples.observations.len());
            let too_few = format!("more samples of {kind}: {count} are too few");
            inference.needed.push(too_few);
        }
        inference.kinds.push(InferredKind::new(samples, model));
    }
    if firm.is_empty() {
        inference.verdict = Verdict::NotEnough;
        return;
    }
    let joints: Vec<Joint<'_>> = Transform::ALL
        .into_iter()
        .filter_map(|transform| Joint::new(transform, kinds, &fits, &firm))
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

/// One transform that explains all kinds of which there are enough samples, and the equations of all of them.
struct Joint<'a> {
    transform: Transform,
    kinds: Vec<(&'a KindSamples, &'a Fit)>,
    system: System,
}

impl<'a> Joint<'a> {
    fn new(
        transform: Transform,
        kinds: &'a [KindSamples],
        fits: &'a [Vec<Fit>],
        firm: &[usize],
    ) -> Option<Joint<'a>> {
        let of_kind = |kind: &usize| {
            let fit = fits[*kind].iter().find(|fit| fit.model.transform == transform)?;
            Some((&kinds[*kind], fit))
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
        let initials: Vec<_> = self
            .kinds
            .iter()
            .map(|(samples, fit)| self.initial(samples, fit))
            .collect();
        inference.initial_value =
            initials[0].filter(|first| initials.iter().all(|other| *other == Some(*first)));
    }

    /// The initial value of a kind, where nothing that never varies hides in it.
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
