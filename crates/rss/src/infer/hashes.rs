//! Inference from known bits of hashes.

use super::fit::{Fit, solution};
use super::result::{Inference, InferredKind, Verdict};
use super::samples::KindSamples;
use super::system::{KEY_BITS, System, Unknown};
use super::{need, relation};
use crate::key::Key;
use crate::transform::Transform;

/// Infers from samples with known bits of their hash.
pub(super) fn infer(inference: &mut Inference, kinds: &[KindSamples], configured: Option<&Key>) {
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
