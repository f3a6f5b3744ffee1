//! Measures the time per hash of every way, for each kind of tuple, one at a time and in batches.
//!
//! Ways alternate, and the result is the median of a way's turns, so other load affects all ways equally.

use super::document::ToeplitzTrial;
use super::ways::{self, ORACLE};
use crate::trial::{TrialHead, Turn};
use corelane_loops::hashing::{Hashing, INPUTS};
use corelane_measure::statistics;
use corelane_rss::Key;

/// Passes over the inputs of one turn: 10,240 hashes, a few microseconds of the fastest way and a millisecond or two of
/// the oracle.
const PASSES: usize = 40;

/// Turns of one round.
const TURNS: usize = 11;

/// Measures `ways`, which this CPU has, once.
pub(super) fn round(ways: &[String], turn: Turn, seed: u64) -> Vec<ToeplitzTrial> {
    let mut cases = Vec::new();
    for name in ways {
        let way = ways::fast(name);
        if way.is_some() || name == ORACLE {
            let every = Hashing::every(way, &Key::VERIFICATION, seed).into_iter();
            cases.extend(every.map(|hashing| (name, hashing, Vec::with_capacity(TURNS))));
        }
    }
    cases.sort_by_key(|(_, hashing, _)| hashing.tuple);
    for _ in 0..TURNS {
        for (_, hashing, times) in &mut cases {
            times.push(hashing.time(PASSES));
        }
    }
    let trial = |(name, hashing, times): (&String, Hashing, Vec<f64>)| {
        let nanoseconds = times.iter().sum::<f64>() * (PASSES * INPUTS) as f64;
        Some(ToeplitzTrial {
            head: TrialHead::new(turn.step, turn.round, nanoseconds / 1e9),
            name: name.clone(),
            tuple: hashing.tuple.to_owned(),
            batch: hashing.batch,
            ns_per_hash: statistics::median(&times)?,
        })
    };
    cases.into_iter().filter_map(trial).collect()
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
                .all(|trial| trial.ns_per_hash > 0.0 && trial.head.is_valid() && trial.head.round == 3)
        );
    }
}
