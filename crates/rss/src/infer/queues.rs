//! Of queues alone: samples without hashes enter; what they tell leaves.
//!
//! With the key that the device was given, every dialect, field and table size is tried: a wrong one gives some entry two
//! queues. Without it, queues that the table gives out in turn, as drivers set it up, are the low bits of the hash where
//! their number is even, and those are equations of the key. Otherwise nothing can be told.

use super::fit::Fit;
use super::kind::KindSamples;
use super::model::{Model, Transform};
use super::relation::Relation;
use super::table::{self, InferredTable};
use super::{Inference, InferredKind, Sample, Verdict};
use crate::key::Key;
use crate::toeplitz::Toeplitz;

/// Infers from the queues of samples.
pub(super) fn infer(inference: &mut Inference, samples: &[Sample], configured: Option<&Key>) {
    let queues = samples
        .iter()
        .filter_map(|sample| sample.queue)
        .max()
        .map_or(0, |most| u32::from(most) + 1);
    if let Some(found) = configured.and_then(|key| of_given_key(samples, key)) {
        found.tell(inference);
        return;
    }
    for bits in (1..=queues.trailing_zeros().min(12)).rev() {
        let known = (1 << bits) - 1;
        let kinds = KindSamples::by_kind(samples, known, |sample| sample.queue.map(u32::from));
        let explained = |samples: &KindSamples| Fit::simplest(samples).iter().any(|fit| fit.is_established());
        if kinds.iter().any(explained) {
            super::of_hashes(inference, &kinds, configured);
            // The hash's other bits reach no queue: the key's first bits stay unknown.
            inference.key_is_enough = false;
            inference.initial_value = None;
            inference.needed.push(format!(
                "samples with hashes: {queues} queues show the hash's low {bits} bits only, if the table names them in turn"
            ));
            return;
        }
    }
    inference.kinds = KindSamples::by_kind(samples, 1, |sample| sample.queue.map(u32::from))
        .iter()
        .map(|samples| InferredKind::new(samples, None))
        .collect();
    inference.verdict = Verdict::NotEnough;
    inference.needed.push(match configured {
        Some(_) => "samples with hashes, or more of these: no dialect of the given key explains the queues"
            .to_owned(),
        None => "samples with hashes, or the key that the device was given: queues alone do not tell the key"
            .to_owned(),
    });
}

/// What explains all queues under a given key.
struct Found {
    relation: Relation,
    key: Key,
    models: Vec<(KindSamples, Model)>,
    table: InferredTable,
    transforms: Vec<Transform>,
}

fn of_given_key(samples: &[Sample], given: &Key) -> Option<Found> {
    let kinds = KindSamples::by_kind(samples, u32::MAX, |sample| sample.queue.map(u32::from));
    let mut found: Option<Found> = None;
    for relation in Relation::tried() {
        let Some(key) = relation.applied(given) else {
            continue;
        };
        let toeplitz = Toeplitz::new(&key);
        for transform in Transform::ALL {
            let models: Option<Vec<_>> = kinds
                .iter()
                .map(|kind| of_kind(kind, transform, &toeplitz).map(|model| (kind.clone(), model)))
                .collect();
            let Some(models) = models else { continue };
            let pairs = models
                .iter()
                .flat_map(|(kind, model)| hashes(kind, *model, &toeplitz));
            let Some(table) = table::of_hashes(pairs) else {
                continue;
            };
            if let Some(found) = &mut found {
                // The same key again, mixed otherwise: fits as well, so neither is settled.
                found.transforms.push(transform);
            } else {
                let (key, transforms) = (key.clone(), vec![transform]);
                found = Some(Found {
                    relation,
                    key,
                    models,
                    table,
                    transforms,
                });
            }
        }
        if found.is_some() {
            break;
        }
    }
    found
}

/// Samples after which hardly a wrong model is left: a table of 4,096 entries has by then given many flows one entry.
const ENOUGH: usize = 20_000;

/// The model of fewest fields that explains the queues of a kind.
fn of_kind(kind: &KindSamples, transform: Transform, toeplitz: &Toeplitz) -> Option<Model> {
    let explains = |model: Model, samples: usize| {
        table::of_hashes(hashes(kind, model, toeplitz).take(samples)).is_some()
    };
    let mut models = Model::all(transform, kind.kind).into_iter();
    models.find(|model| explains(*model, ENOUGH) && explains(*model, usize::MAX))
}

/// The hash and queue of every sample of a kind.
fn hashes<'a>(
    kind: &'a KindSamples,
    model: Model,
    toeplitz: &'a Toeplitz,
) -> impl Iterator<Item = (u32, u16)> + 'a {
    let length = 2 * kind.kind.family.address_bits() / 8 + 4;
    kind.observations.iter().map(move |one| {
        let hashed = model.hashed(&one.input, kind.kind.family);
        (toeplitz.hash_input(&hashed[..length]), one.hash as u16)
    })
}

impl Found {
    fn tell(self, inference: &mut Inference) {
        let settled = self.transforms.len() == 1;
        inference.transform = self.transforms.first().copied().filter(|_| settled);
        inference.transforms_that_fit = self.transforms;
        inference.relation = Some(self.relation);
        inference.key = Some(self.key);
        inference.key_is_enough = true;
        for (samples, model) in &self.models {
            let inferred = InferredKind::new(samples, Some(*model));
            for field in &inferred.unknown {
                inference.needed.push(format!(
                    "samples of {} that differ in the {field}: it never varies",
                    samples.kind
                ));
            }
            inference.kinds.push(inferred);
        }
        if !settled {
            inference.needed.push(
                "samples that differ in both addresses and ports: several ways to mix them fit".to_owned(),
            );
        }
        inference.table = Some(self.table);
        inference.verdict = Verdict::Settled;
    }
}
