//! Inference from queues alone, without hashes.
//!
//! If the configured key is known, every dialect, field set and table size is tried: a wrong one gives some entry two
//! queues. Otherwise, if the table names the queues in turn, as drivers set it up, and their number is even, the queue
//! gives the low bits of the hash, which are equations of the key. In all other cases nothing can be inferred.

use super::fit::Fit;
use super::model::Model;
use super::relation::Relation;
use super::result::{Inference, InferredKind, Verdict};
use super::samples::{KindSamples, Sample};
use super::{hashes, need, table};
use crate::key::Key;
use crate::toeplitz::Toeplitz;
use crate::transform::Transform;

/// Infers from the queues of samples.
pub(super) fn infer(inference: &mut Inference, samples: &[Sample], configured: Option<&Key>) {
    let queue = |sample: &Sample| sample.queue.map(u32::from);
    let queues = samples.iter().filter_map(queue).max().map_or(0, |most| most + 1);
    let kinds = KindSamples::by_kind(samples, u32::MAX, queue);
    if configured.is_some_and(|key| of_given_key(inference, &kinds, key)) {
        return;
    }
    for bits in (1..=queues.trailing_zeros().min(12)).rev() {
        let known = (1 << bits) - 1;
        let kinds = KindSamples::by_kind(samples, known, queue);
        let explained = |samples: &KindSamples| Fit::simplest(samples).iter().any(|fit| fit.is_established());
        if kinds.iter().any(explained) {
            hashes::infer(inference, &kinds, configured);
            // The other bits of the hash do not affect the queue: the key's first bits stay unknown.
            inference.key_is_enough = false;
            inference.initial_value = None;
            inference.needed.push(format!(
                "samples with hashes: {queues} queues show the hash's low {bits} bits only, if the table names them in turn"
            ));
            return;
        }
    }
    let unexplained = kinds.iter().map(|kind| InferredKind::new(kind, None));
    inference.kinds = unexplained.collect();
    if configured.is_some_and(|key| contradicts_given_key(&kinds, key)) {
        inference.verdict = Verdict::NothingFits;
        return;
    }
    inference.verdict = Verdict::NotEnough;
    inference.needed.push(match configured {
        Some(_) => "samples with hashes, or more of these: no dialect of the given key explains the queues"
            .to_owned(),
        None => "samples with hashes, or the key that the device was given: queues alone do not give the key"
            .to_owned(),
    });
}

/// Infers with a given key; false if no dialect explains all queues.
fn of_given_key(inference: &mut Inference, kinds: &[KindSamples], given: &Key) -> bool {
    for (relation, key, toeplitz) in related(given) {
        let mut fitting = Transform::ALL.into_iter().filter_map(|transform| {
            let models = kinds.iter().map(|kind| of_kind(kind, transform, &toeplitz));
            let models: Vec<Model> = models.collect::<Option<_>>()?;
            let of_kinds = kinds.iter().zip(&models);
            let pairs = of_kinds.flat_map(|(kind, model)| hashes_of(kind, *model, &toeplitz));
            Some((transform, table::of_hashes(pairs)?, models))
        });
        let Some((transform, table, models)) = fitting.next() else {
            continue;
        };
        // The same key fits with another transform too, so neither is determined.
        let others = fitting.map(|(transform, ..)| transform);
        inference.transforms_that_fit = std::iter::once(transform).chain(others).collect();
        let settled = inference.transforms_that_fit.len() == 1;
        inference.transform = settled.then_some(transform);
        inference.relation = Some(relation);
        inference.key = Some(key);
        inference.key_is_enough = true;
        let inferred = kinds.iter().zip(models);
        inference.kinds = inferred
            .map(|(kind, model)| InferredKind::new(kind, Some(model)))
            .collect();
        inference.needed.extend(need::of_fields(&inference.kinds));
        if !settled {
            inference.needed.push(
                "samples that differ in both addresses and ports: several ways to mix them fit".to_owned(),
            );
        }
        inference.table = Some(table);
        inference.verdict = Verdict::Settled;
        return true;
    }
    false
}

/// The keys that a device may use where another one was given.
fn related(given: &Key) -> impl Iterator<Item = (Relation, Key, Toeplitz)> {
    Relation::tried().filter_map(move |relation| {
        let key = relation.applied(given)?;
        let toeplitz = Toeplitz::new(&key);
        Some((relation, key, toeplitz))
    })
}

/// Whether every dialect of a given key, set of fields and table gives some sample another queue.
fn contradicts_given_key(kinds: &[KindSamples], given: &Key) -> bool {
    related(given).all(|(_, _, toeplitz)| {
        let explains = |kind: &KindSamples, transform| {
            let mut models = Model::all(transform, kind.kind).into_iter();
            models.any(|model| !table::none_fits(hashes_of(kind, model, &toeplitz)))
        };
        let mut transforms = Transform::ALL.into_iter();
        transforms.all(|transform| kinds.iter().any(|kind| !explains(kind, transform)))
    })
}

/// Number of samples that rules out nearly all wrong models: by then many flows share an entry even in a table of 4,096
/// entries.
const ENOUGH: usize = 20_000;

/// The model with the fewest fields that explains the queues of a kind.
fn of_kind(kind: &KindSamples, transform: Transform, toeplitz: &Toeplitz) -> Option<Model> {
    let explains = |model: Model, samples: usize| {
        table::of_hashes(hashes_of(kind, model, toeplitz).take(samples)).is_some()
    };
    let mut models = Model::all(transform, kind.kind).into_iter();
    models.find(|model| explains(*model, ENOUGH) && explains(*model, usize::MAX))
}

/// The hash and queue of every sample of a kind.
fn hashes_of<'a>(
    kind: &'a KindSamples,
    model: Model,
    toeplitz: &'a Toeplitz,
) -> impl Iterator<Item = (u32, u16)> + Clone + 'a {
    kind.observations.iter().map(move |one| {
        let hash = model.hash(toeplitz, &one.input, kind.kind.family);
        (hash, one.hash as u16)
    })
}
