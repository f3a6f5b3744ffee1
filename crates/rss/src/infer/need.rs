//! Describes which further samples would determine more.

use super::fit::Fit;
use super::model::{Field, Input};
use super::result::InferredKind;
use super::samples::{KindSamples, Observation};
use super::system::{Equation, System};
use crate::transform::Transform;

/// Bits of fields that must differ so that the key is determined as far as packets of these kinds use it.
pub(super) fn of_key(kinds: &[(&KindSamples, &Fit)], system: &System) -> Vec<String> {
    let mut needed = Vec::new();
    for (samples, fit) in kinds {
        for field in Field::ALL
            .into_iter()
            .filter(|field| fit.model.fields.contains(*field))
        {
            let bytes = field.bytes(samples.kind.family);
            let bits: Vec<usize> = (8 * bytes.start..8 * bytes.end)
                .filter(|bit| !is_settled(samples, fit, system, *bit))
                .map(|bit| bit - 8 * bytes.start)
                .collect();
            if let (Some(first), Some(last)) = (bits.first(), bits.last()) {
                needed.push(format!(
                    "samples of {} that differ in more of the {field}: {} of its bits {first} to {last} add nothing new yet",
                    samples.kind,
                    bits.len()
                ));
            }
        }
    }
    needed
}

/// Whether the hash of a packet that differs in this input bit would be known.
fn is_settled(samples: &KindSamples, fit: &Fit, system: &System, bit: usize) -> bool {
    let differences = differences(fit.model.transform, samples, bit);
    differences.iter().all(|difference| {
        let hashed = fit.model.fields_only(difference, samples.kind.family);
        samples
            .known_bits()
            .all(|bit| system.value_of(Equation::of_input(&hashed, bit)).is_some())
    })
}

/// The change of the transformed input when a bit changes: with the destination's bit clear and, if that differs, with
/// it set.
fn differences(transform: Transform, samples: &KindSamples, bit: usize) -> Vec<Input> {
    let family = samples.kind.family;
    let mut clear: Input = [0; 36];
    clear[bit / 8] = 0x80 >> (bit % 8);
    let first = transform.apply(&clear, family);
    match transform {
        Transform::SymmetricOrXor => {}
        // Either end may be the smaller one, so that a bit of each field counts at its own place.
        Transform::SymmetricSort => return vec![clear],
        _ => return vec![first],
    }
    // With one bit set, OR and XOR are both one; with both bits set, only OR is.
    let (source, _) = family.both_ends(bit);
    let mut or_only: Input = [0; 36];
    or_only[source / 8] = 0x80 >> (bit % 8);
    vec![first, or_only]
}

/// Fields that never vary.
pub(super) fn of_fields(kinds: &[InferredKind]) -> impl Iterator<Item = String> {
    let unknown = kinds
        .iter()
        .flat_map(|inferred| inferred.unknown.iter().map(move |field| (inferred.kind, field)));
    unknown.map(|(kind, field)| format!("samples of {kind} that differ in the {field}: it never varies"))
}

/// Samples that would distinguish the transforms that fit so far.
pub(super) fn of_transforms(kinds: &[KindSamples], fitting: &[Transform]) -> String {
    let names: Vec<_> = fitting.iter().map(ToString::to_string).collect();
    let constant = kinds
        .iter()
        .any(|samples| Field::ALL.into_iter().take(2).any(|field| !samples.varies(field)));
    let is_sorted = |samples: &KindSamples| {
        let sorted =
            |one: &Observation| Transform::SymmetricSort.apply(&one.input, samples.kind.family) == one.input;
        samples.observations.iter().all(sorted)
    };
    if !constant && fitting.contains(&Transform::SymmetricSort) && kinds.iter().all(is_sorted) {
        format!("samples of both directions: {} all fit", names.join(", "))
    } else if constant {
        format!(
            "samples that differ in both addresses: {} all fit",
            names.join(", ")
        )
    } else {
        format!(
            "nothing: {} hash alike under a key that repeats",
            names.join(", ")
        )
    }
}
