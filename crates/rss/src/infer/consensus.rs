//! Finds the samples that contradict the others, given how many may be wrong; returns nothing if they cannot be
//! determined.
//!
//! A sample is 32 equations, and a dozen samples settle most of a key. The samples are processed in a random order. The
//! first ones are assumed to be correct until they determine the key; samples that contradict them are set aside. If a
//! wrong sample is among the first ones, too many are set aside, and another order is drawn. If different orders set
//! aside different samples of the same number, none is reported.

use super::fit::{EVIDENCE_BITS, Fit, observe, solution};
use super::model::Model;
use super::samples::{KindSamples, Sample};
use super::system::{HASH_BITS, System};
use super::table;
use crate::toeplitz::Toeplitz;
use crate::transform::Transform;

/// Orders drawn for each model. If a tenth of the samples is wrong, one order in four has no wrong sample among the
/// first twelve.
const ORDERS: u64 = 16;

/// Margin by which more than half of the first samples may contradict, even if fewer of all samples do.
const DOUBTED: usize = 8;

/// Indices of the samples that contradict the others, ascending: hashes that no common key explains, and queues that
/// contradict the table of the rest, if there is one. `None` if more than `most` hashes contradict, or if they cannot
/// be determined.
#[must_use]
pub fn contradicting(samples: &[Sample], most: usize) -> Option<Vec<usize>> {
    let has_hash = |sample: &Sample| sample.hash.filter(|hash| *hash != 0);
    let mut found = Vec::new();
    for kind in KindSamples::by_kind(samples, u32::MAX, has_hash) {
        let of_kind = |(place, sample): (usize, &Sample)| {
            (sample.kind() == kind.kind && has_hash(sample).is_some()).then_some(place)
        };
        let places: Vec<usize> = samples.iter().enumerate().filter_map(of_kind).collect();
        let set_aside = of_hashes(&kind, most - found.len())?;
        found.extend(set_aside.into_iter().map(|place| places[place]));
    }
    let judged = |(place, sample): (usize, &Sample)| {
        let pair = (has_hash(sample)?, sample.queue?);
        (!found.contains(&place)).then_some((place, pair))
    };
    let (places, pairs): (Vec<usize>, Vec<_>) = samples.iter().enumerate().filter_map(judged).unzip();
    if !pairs.is_empty() {
        let set_aside = table::contradicting(&pairs, most - found.len());
        found.extend(set_aside.into_iter().map(|place| places[place]));
    }
    found.sort_unstable();
    Some(found)
}

/// The smallest set of samples of a kind whose removal leaves a common key for the rest, for the first model that has
/// such a key.
fn of_hashes(kind: &KindSamples, most: usize) -> Option<Vec<usize>> {
    if !Fit::simplest(kind).is_empty() {
        return Some(Vec::new());
    }
    // With as many wrong as right samples, either half could be the wrong one.
    let most = most.min(kind.observations.len().saturating_sub(1) / 2);
    let models = Transform::ALL
        .into_iter()
        .flat_map(|transform| Model::all(transform, kind.kind));
    for model in models {
        let orders = (0..ORDERS).filter_map(|seed| without_few(kind, model, most, seed));
        let mut fewest: Option<Vec<usize>> = None;
        let mut several = false;
        for set_aside in orders {
            match &fewest {
                Some(known) if known.len() < set_aside.len() => {}
                Some(known) if known.len() == set_aside.len() => several |= *known != set_aside,
                _ => (fewest, several) = (Some(set_aside), false),
            }
        }
        if let Some(fewest) = fewest {
            return (!several).then_some(fewest);
        }
    }
    None
}

/// The samples that contradict those before them in an order, at most so many of them, if the rest are evidence.
fn without_few(kind: &KindSamples, model: Model, most: usize, seed: u64) -> Option<Vec<usize>> {
    let (mut system, mut set_aside) = (System::new(), Vec::new());
    let mut believed: Option<(Toeplitz, u32)> = None;
    let mut evidence = 0;
    for (seen, place) in order(kind.observations.len(), seed).into_iter().enumerate() {
        let observation = &kind.observations[place];
        // Most samples follow from the earlier ones; comparing their hash is faster than adding their equations.
        if let Some((toeplitz, initial)) = &believed
            && model.hash(toeplitz, &observation.input, kind.kind.family) ^ initial == observation.hash
        {
            evidence += HASH_BITS as u64;
            continue;
        }
        let mut more = system.clone();
        if observe(&mut more, kind, model, observation) {
            system = more;
            believed = (system.redundant >= EVIDENCE_BITS).then(|| {
                let (key, initial) = solution(&system, kind.number);
                (Toeplitz::new(&key), initial)
            });
        } else {
            set_aside.push(place);
        }
        // Under a wrong model, or after a wrong sample, most samples contradict, which is detected early.
        if set_aside.len() > most || set_aside.len() > seen / 2 + DOUBTED {
            return None;
        }
    }
    // Choosing which samples to set aside makes a coincidence more likely.
    let chosen = set_aside.len() as u64 * u64::from(kind.observations.len().ilog2() + 1);
    set_aside.sort_unstable();
    (evidence + system.redundant >= EVIDENCE_BITS + chosen).then_some(set_aside)
}

/// A permutation of this many indices, drawn from a seed: Fisher and Yates's, with the numbers of SplitMix64 (Steele,
/// Lea and Flood, "Fast splittable pseudorandom number generators").
fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    places
}
