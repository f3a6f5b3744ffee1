//! Measures the time per hash of every way, for each kind of tuple, one at a time and in batches.
//!
//! Measured is throughput: many inputs one after the other, none waiting for the hash before. Ways alternate, and the
//! result is the median of a way's turns, so other load affects all ways equally.

use super::document::ToeplitzTrial;
use super::ways::{self, ORACLE};
use crate::tried::{Tried, Turn};
use corelane_measure::statistics;
use corelane_rss::{Key, Toeplitz, oracle};
use std::hint::black_box;
use std::time::Instant;

/// Inputs hashed in turn: several batches, small enough to stay in the first-level cache.
const INPUTS: usize = 256;

/// Hashes of one call: the largest batch that packets arrive in here.
const BATCH: usize = 64;

/// Passes over the inputs of one turn: 10,240 hashes, a few microseconds of the fastest way and a millisecond or two of
/// the oracle.
const PASSES: usize = 40;

/// Turns of one round.
const TURNS: usize = 11;

/// Measures `ways`, which this CPU has, once.
pub(super) fn round(ways: &[String], turn: Turn, seed: u64) -> Vec<ToeplitzTrial> {
    let mut cases = Vec::new();
    add_cases::<8>(&mut cases, ways, "ipv4-2tuple", seed);
    add_cases::<12>(&mut cases, ways, "ipv4-4tuple", seed);
    add_cases::<32>(&mut cases, ways, "ipv6-2tuple", seed);
    add_cases::<36>(&mut cases, ways, "ipv6-4tuple", seed);
    for _ in 0..TURNS {
        for case in &mut cases {
            let started = Instant::now();
            (0..PASSES).for_each(|_| (case.pass)());
            let nanoseconds = started.elapsed().as_nanos() as f64;
            case.turns.push(nanoseconds / (PASSES * INPUTS) as f64);
        }
    }
    let trial = |case: Case| {
        let nanoseconds = case.turns.iter().sum::<f64>() * (PASSES * INPUTS) as f64;
        Some(ToeplitzTrial {
            tried: Tried::new(turn.step, turn.round, nanoseconds / 1e9),
            name: case.way,
            tuple: case.tuple.to_owned(),
            batch: case.batch,
            ns_per_hash: statistics::median(&case.turns)?,
        })
    };
    cases.into_iter().filter_map(trial).collect()
}

/// One way of hashing one kind of tuple.
struct Case {
    way: String,
    tuple: &'static str,
    batch: usize,
    /// Hashes all inputs once.
    pass: Box<dyn FnMut()>,
    /// Nanoseconds per hash.
    turns: Vec<f64>,
}

/// Every way over tuples whose input is `N` bytes long.
fn add_cases<const N: usize>(cases: &mut Vec<Case>, ways: &[String], tuple: &'static str, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let inputs: Vec<[u8; N]> = (0..INPUTS)
        .map(|_| std::array::from_fn(|_| random.u8(..)))
        .collect();
    let key = Key::VERIFICATION;
    for way in ways {
        let mut add = |batch, pass| {
            cases.push(Case {
                way: way.clone(),
                tuple,
                batch,
                pass,
                turns: Vec::with_capacity(TURNS),
            });
        };
        if way == ORACLE {
            let (key, inputs) = (key.clone(), inputs.clone());
            add(1, single(inputs, move |input| oracle::toeplitz(&key, input)));
        } else if let Some(fast) = ways::fast(way).and_then(|way| Toeplitz::with_way(&key, way).ok()) {
            // A way that this CPU lacks was left out before.
            let alone = fast.clone();
            add(1, single(inputs.clone(), move |input| alone.hash_input(input)));
            add(BATCH, batched(inputs.clone(), fast));
        }
    }
}

fn single<const N: usize>(inputs: Vec<[u8; N]>, hash: impl Fn(&[u8]) -> u32 + 'static) -> Box<dyn FnMut()> {
    Box::new(move || {
        let hashes = black_box(&inputs).iter().map(|input| hash(input));
        black_box(hashes.fold(0, |sum, hash| sum ^ hash));
    })
}

fn batched<const N: usize>(inputs: Vec<[u8; N]>, toeplitz: Toeplitz) -> Box<dyn FnMut()> {
    let mut hashes = vec![0; INPUTS];
    Box::new(move || {
        for (inputs, hashes) in black_box(&inputs).chunks(BATCH).zip(hashes.chunks_mut(BATCH)) {
            toeplitz.hash_inputs(inputs, hashes);
        }
        black_box(&hashes);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::Way;

    #[test]
    fn every_way_is_measured_for_every_kind_of_tuple() {
        let fast = Way::available().into_iter().map(Way::name);
        let ways: Vec<String> = [ORACLE].into_iter().chain(fast).map(str::to_owned).collect();
        let trials = round(&ways, Turn { step: 0, round: 3 }, 1);
        assert_eq!(trials.len(), 4 * (1 + 2 * Way::available().len()));
        assert!(
            trials
                .iter()
                .all(|trial| trial.ns_per_hash > 0.0 && trial.tried.is_valid() && trial.tried.round == 3)
        );
    }
}
