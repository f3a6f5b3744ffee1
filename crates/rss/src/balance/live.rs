//! Live rebalancing as a state machine: takes the counted load of each entry now and then, and returns the entries to
//! move.
//!
//! Loads are averaged over some seconds, the older ones with less weight. Nothing moves until the fullest bucket has
//! exceeded the best assignment found in two decisions in a row, by a margin and the error of sampling. Then entries
//! move, at most so many in any second, until the excess is within the tolerance or within the error of sampling. So a
//! load that varies around the level moves nothing.
//!
//! The load of an entry counts for the bucket that the table names, wherever its datagrams are queued or its connections
//! are open: those follow, at once or when they end, and moving more meanwhile would overshoot.

use super::{Move, Options, bucket_loads, rebalance};
use crate::error::InputError;
use crate::table::IndirectionTable;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// When to move entries, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Most entries moved in any second; below 1, one in as many seconds. Below 2, entries are not exchanged, because an
    /// exchange moves two. Every change of the table replaces the steering program.
    pub moves_per_s: f64,
    /// How far above the best assignment found the fullest bucket has to be before entries move, as a share of that.
    pub start: f64,
    /// How far above it is level enough; see [`Options::tolerance`].
    pub tolerance: f64,
    /// Seconds over which loads are averaged: the time constant of the weights.
    pub memory_s: f64,
    /// Seconds between two decisions.
    pub interval_s: f64,
}

impl Policy {
    /// At most this many moves per second. The rest is chosen so that a load that does not change is level within 5 %
    /// of the best assignment after some seconds: 3 % to start, and 2 % at the end.
    #[must_use]
    pub const fn new(moves_per_s: f64) -> Policy {
        Policy {
            moves_per_s,
            start: 0.03,
            tolerance: Options::TOLERANCE,
            memory_s: 3.0,
            interval_s: 0.5,
        }
    }
}

impl Default for Policy {
    /// Ten moves per second.
    fn default() -> Policy {
        Policy::new(10.0)
    }
}

/// The load of each entry since a start, in any unit that adds up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryLoads {
    /// By entry.
    pub loads: Vec<u64>,
    /// The number of samples that the loads were estimated from: their error follows from it.
    pub samples: u64,
}

impl EntryLoads {
    /// Adds those of another part of the system.
    pub fn add(&mut self, loads: impl IntoIterator<Item = u64>, samples: u64) {
        self.samples += samples;
        for (entry, load) in loads.into_iter().enumerate() {
            if entry == self.loads.len() {
                self.loads.push(0);
            }
            self.loads[entry] += load;
        }
    }
}

/// Decisions in a row before entries move.
const DECISIONS_ABOVE: u32 = 2;

/// Standard deviations of the sampled load that are no reason to start moving, and that end it.
const DEVIATIONS: f64 = 2.0;
const LAST_DEVIATIONS: f64 = 1.0;

/// Parts of the unit in which averages are compared, so that old loads still count.
const PARTS: f64 = 256.0;

/// Fewer samples than this per bucket, within the memory, show nothing.
const SAMPLES_PER_BUCKET: f64 = 50.0;

/// The state: averages, and what may move now.
#[derive(Clone, Debug)]
pub struct Rebalancer {
    policy: Policy,
    buckets: usize,
    /// As of the last decision.
    counted: EntryLoads,
    /// Averages, as weighted sums: loads, samples and seconds.
    loads: Vec<f64>,
    samples: f64,
    seconds: f64,
    /// Time of the last decision, in seconds since the start.
    now: f64,
    /// The moves of the last second, or of as many seconds as one takes: their times.
    recent: VecDeque<f64>,
    /// Decisions in a row that found the fullest bucket too full.
    above: u32,
    /// Moving until level.
    levelling: bool,
}

impl Rebalancer {
    /// Levels a table over this many buckets. `counted` has the loads so far, which are not considered.
    #[must_use]
    pub fn new(policy: Policy, buckets: usize, counted: EntryLoads) -> Rebalancer {
        Rebalancer {
            policy,
            buckets,
            loads: vec![0.0; counted.loads.len()],
            counted,
            samples: 0.0,
            seconds: 0.0,
            now: 0.0,
            recent: VecDeque::new(),
            above: 0,
            levelling: false,
        }
    }

    /// What it acts by.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Decides `elapsed` seconds after the last decision. `counted` are the loads since the start. Returns the entries
    /// to move now, with their loads per second; mostly none.
    ///
    /// # Errors
    /// Those of [`rebalance`].
    pub fn decide(
        &mut self,
        elapsed: f64,
        table: &IndirectionTable,
        counted: EntryLoads,
    ) -> Result<Vec<Move>, InputError> {
        self.average(elapsed, counted);
        self.now += elapsed;
        let parts: Vec<u64> = self.loads.iter().map(|load| (load * PARTS) as u64).collect();
        let options = Options {
            buckets: self.buckets,
            tolerance: self.policy.tolerance,
        };
        let decided = rebalance(table, &parts, options)?;
        let (before, after) = (decided.fullest_before as f64, decided.fullest_after as f64);
        let a_sample = parts.iter().sum::<u64>() as f64 / self.samples.max(1.0);
        let known = self.samples >= SAMPLES_PER_BUCKET * self.buckets as f64;
        let noise = (before * a_sample).sqrt();
        let is_above = known && before > after * (1.0 + self.policy.start) + DEVIATIONS * noise;
        self.above = if is_above { self.above + 1 } else { 0 };
        let goes_on = self.levelling && before > after + LAST_DEVIATIONS * noise;
        self.levelling = known && !decided.moves.is_empty() && (goes_on || self.above >= DECISIONS_ABOVE);
        if !self.levelling {
            return Ok(Vec::new());
        }
        let held = bucket_loads(table, &parts, self.buckets);
        let mut moves = first(decided.moves, self.allowance(), held);
        self.recent.extend(moves.iter().map(|_| self.now));
        for entry in &mut moves {
            entry.load = (self.loads[entry.entry] / self.seconds) as u64;
        }
        Ok(moves)
    }

    /// Moves allowed now: evenly distributed over the decisions of a second, and never more than allowed in any second.
    fn allowance(&mut self) -> usize {
        let Policy {
            moves_per_s,
            interval_s,
            ..
        } = self.policy;
        let span = (1.0 / moves_per_s).max(1.0);
        while self.recent.front().is_some_and(|moved| self.now - moved >= span) {
            self.recent.pop_front();
        }
        let per_decision = (moves_per_s * interval_s).ceil().max(2.0) as usize;
        let most = (moves_per_s * span) as usize;
        most.saturating_sub(self.recent.len()).min(per_decision)
    }

    /// The load of each bucket per second, averaged, under `table`.
    #[must_use]
    pub fn bucket_loads_per_s(&self, table: &IndirectionTable) -> Vec<u64> {
        let per_s = self
            .loads
            .iter()
            .map(|load| (load / self.seconds.max(f64::MIN_POSITIVE)) as u64);
        bucket_loads(table, &per_s.collect::<Vec<_>>(), self.buckets)
    }

    fn average(&mut self, elapsed: f64, counted: EntryLoads) {
        let kept = (-elapsed / self.policy.memory_s).exp();
        self.loads.resize(counted.loads.len(), 0.0);
        for (entry, load) in self.loads.iter_mut().enumerate() {
            let before = self.counted.loads.get(entry).copied().unwrap_or(0);
            *load = *load * kept + counted.loads[entry].saturating_sub(before) as f64;
        }
        self.samples = self.samples * kept + counted.samples.saturating_sub(self.counted.samples) as f64;
        self.seconds = self.seconds * kept + elapsed;
        self.counted = counted;
    }
}

/// At most `most` of these moves: each the one that evens the buckets' loads `held` most, or two that exchange entries
/// and do so only together.
fn first(mut moves: Vec<Move>, most: usize, mut held: Vec<u64>) -> Vec<Move> {
    if moves.len() <= most {
        return moves;
    }
    let mut chosen: Vec<Move> = Vec::new();
    while chosen.len() < most {
        let gains = moves.iter().map(|entry| gain(&held, &[*entry]));
        let alone = gains.enumerate().max_by_key(|(_, gain)| *gain);
        let taken = match alone.filter(|(_, gain)| *gain > 0) {
            Some((at, _)) => vec![at],
            None if chosen.len() + 2 <= most => exchange(&moves, &held),
            None => Vec::new(),
        };
        if taken.is_empty() {
            break;
        }
        // Descending, so that each is still where it was.
        for at in taken.into_iter().rev() {
            let entry = moves.remove(at);
            held[entry.from.index()] -= entry.load;
            held[entry.to.index()] += entry.load;
            chosen.push(entry);
        }
    }
    chosen
}

/// The two moves that even the loads most when an entry of each bucket goes to the other; none if none do.
fn exchange(moves: &[Move], held: &[u64]) -> Vec<usize> {
    let pairs = (0..moves.len()).flat_map(|one| (one + 1..moves.len()).map(move |other| [one, other]));
    let opposite = pairs.filter(|[one, other]| {
        let (one, other) = (moves[*one], moves[*other]);
        (one.from, one.to) == (other.to, other.from)
    });
    let gains = opposite.map(|pair| (gain(held, &pair.map(|at| moves[at])), pair));
    let best = gains.max_by_key(|(gain, _)| *gain).filter(|(gain, _)| *gain > 0);
    best.map_or_else(Vec::new, |(_, pair)| pair.to_vec())
}

/// How much less the sum of the squared loads is after these moves between two buckets.
fn gain(held: &[u64], moves: &[Move]) -> i128 {
    let (one, other) = (moves[0].from.index(), moves[0].to.index());
    let leaving = |entry: &Move| match entry.from.index() == one {
        true => i128::from(entry.load),
        false => -i128::from(entry.load),
    };
    let shift: i128 = moves.iter().map(leaving).sum();
    2 * shift * (i128::from(held[one]) - i128::from(held[other]) - shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::moved;
    use crate::table::Bucket;

    /// A load of `rates` per second, counted exactly or by samples of a fixed random series, and its rebalancer.
    struct Bench {
        rebalancer: Rebalancer,
        table: IndirectionTable,
        counted: EntryLoads,
        seed: u64,
    }

    impl Bench {
        fn new(policy: Policy, entries: usize, buckets: usize) -> Bench {
            let counted = EntryLoads {
                loads: vec![0; entries],
                samples: 0,
            };
            Bench {
                rebalancer: Rebalancer::new(policy, buckets, counted.clone()),
                table: IndirectionTable::round_robin(entries, buckets).unwrap(),
                counted,
                seed: 1,
            }
        }

        /// A number below `most`, of a multiplicative generator.
        fn random(&mut self, most: u64) -> u64 {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 33) % most
        }

        /// Half a second of load, and the moves after it. With `weight` the loads are sampled: one in so many.
        fn turn(&mut self, rates: &[u64], weight: Option<u64>) -> Vec<Move> {
            let total: u64 = rates.iter().sum();
            match weight {
                None => {
                    for (load, rate) in self.counted.loads.iter_mut().zip(rates) {
                        *load += rate / 2;
                    }
                    self.counted.samples += total / 2;
                }
                Some(weight) => {
                    for _ in 0..total / 2 / weight {
                        let mut at = self.random(total);
                        let entry = rates.iter().position(|rate| match at.checked_sub(*rate) {
                            Some(left) => {
                                at = left;
                                false
                            }
                            None => true,
                        });
                        self.counted.loads[entry.unwrap()] += weight;
                        self.counted.samples += 1;
                    }
                }
            }
            let moves = self
                .rebalancer
                .decide(0.5, &self.table, self.counted.clone())
                .unwrap();
            self.table = moved(&self.table, &moves);
            moves
        }

        /// The fullest bucket, as a multiple of the mean.
        fn fullest(&self, rates: &[u64]) -> f64 {
            let held = bucket_loads(&self.table, rates, self.rebalancer.buckets);
            let total: u64 = rates.iter().sum();
            *held.iter().max().unwrap() as f64 * held.len() as f64 / total as f64
        }
    }

    /// A rate per entry by Zipf's law, in an order that spreads the heavy ones.
    fn zipf(entries: usize) -> Vec<u64> {
        let rank = |entry: usize| (entry * 37 % entries + 1) as f64;
        (0..entries)
            .map(|entry| (20_000.0 / rank(entry)) as u64)
            .collect()
    }

    fn on_one(entries: usize) -> IndirectionTable {
        IndirectionTable::from_entries(vec![Bucket::new(0); entries]).unwrap()
    }

    #[test]
    fn a_skewed_load_is_level_within_ten_seconds_at_the_rate_of_moves_and_then_rests() {
        let rates = zipf(128);
        for (buckets, weight) in [(2, None), (4, None), (4, Some(16)), (8, Some(4))] {
            let mut bench = Bench::new(Policy::default(), 128, buckets);
            bench.table = on_one(128);
            let moved: Vec<usize> = (0..40).map(|_| bench.turn(&rates, weight).len()).collect();
            let (busy, rest) = moved.split_at(20);
            let best = rebalance(&bench.table, &rates, Options::new(buckets)).unwrap();
            let fullest = bench.fullest(&rates);
            let bound = best.bound as f64 * buckets as f64 / rates.iter().sum::<u64>() as f64;
            assert!(
                fullest <= bound * 1.05,
                "{buckets} buckets, {weight:?}: {fullest} of {bound}: {moved:?}"
            );
            assert!(busy.iter().all(|moves| *moves <= 5), "{moved:?}");
            assert!(
                rest.iter().sum::<usize>() <= 2,
                "{buckets} buckets, {weight:?}: {moved:?}"
            );
        }
    }

    #[test]
    fn a_limit_of_moves_per_second_holds_over_every_second() {
        let rates = zipf(128);
        for per_s in [1, 2, 3, 4, 5, 7, 10] {
            let mut bench = Bench::new(Policy::new(f64::from(per_s)), 128, 4);
            bench.table = on_one(128);
            let moved: Vec<usize> = (0..240).map(|_| bench.turn(&rates, None).len()).collect();
            let most = moved.windows(2).map(|second| second[0] + second[1]).max();
            assert_eq!(most, Some(per_s as usize), "{per_s}/s: {moved:?}");
            assert!(bench.fullest(&rates) < 1.05, "{per_s}/s");
        }
    }

    #[test]
    fn less_than_one_move_per_second_is_one_in_several() {
        let rates = zipf(128);
        let mut bench = Bench::new(Policy::new(0.5), 128, 4);
        bench.table = on_one(128);
        let moved: Vec<usize> = (0..40).map(|_| bench.turn(&rates, None).len()).collect();
        let most = moved
            .windows(4)
            .map(|seconds| seconds.iter().sum::<usize>())
            .max();
        assert_eq!(most, Some(1), "{moved:?}");
    }

    #[test]
    fn loads_that_vary_around_the_level_by_a_fifth_move_nothing() {
        for weight in [None, Some(8)] {
            let mut bench = Bench::new(Policy::default(), 128, 4);
            let mut moved = 0;
            for _ in 0..200 {
                let rates: Vec<u64> = (0..128).map(|_| 160 + bench.random(81)).collect();
                // The load of each entry stays for a second.
                moved += (0..2).map(|_| bench.turn(&rates, weight).len()).sum::<usize>();
            }
            assert_eq!(moved, 0, "{weight:?}");
        }
    }

    #[test]
    fn a_level_load_that_is_sampled_moves_nothing() {
        let mut bench = Bench::new(Policy::default(), 128, 4);
        let rates = vec![40; 128];
        let moved: usize = (0..200).map(|_| bench.turn(&rates, Some(8)).len()).sum();
        assert_eq!(moved, 0, "noise of sampling");
    }

    #[test]
    fn a_burst_of_one_decision_moves_nothing_and_a_lasting_change_does() {
        let mut bench = Bench::new(Policy::default(), 16, 4);
        let (level, mut burst) = (vec![1_000; 16], vec![1_000; 16]);
        burst[0] = 1_600;
        burst[4] = 1_600;
        (0..20).for_each(|_| assert!(bench.turn(&level, None).is_empty()));
        assert!(bench.turn(&burst, None).is_empty());
        // It is forgotten with the memory of the averages, not at once: it must not add up to a reason to move.
        let after: usize = (0..20).map(|_| bench.turn(&level, None).len()).sum();
        assert!(after <= 2, "{after}");
        let lasting: usize = (0..20).map(|_| bench.turn(&burst, None).len()).sum();
        assert!(lasting > 0);
    }

    #[test]
    fn silence_and_too_few_samples_move_nothing() {
        let mut bench = Bench::new(Policy::default(), 16, 4);
        bench.table = on_one(16);
        assert!((0..20).all(|_| bench.turn(&[0; 16], None).is_empty()));
        assert!((0..20).all(|_| bench.turn(&[3; 16], None).is_empty()));
        assert!((0..20).any(|_| !bench.turn(&[300; 16], None).is_empty()));
    }

    #[test]
    fn others_leave_the_bucket_of_an_entry_larger_than_a_share_and_then_nothing_moves() {
        let mut bench = Bench::new(Policy::default(), 16, 4);
        let mut rates = vec![100; 16];
        rates[0] = 2_000;
        (0..10).for_each(|_| drop(bench.turn(&rates, None)));
        let rest: usize = (0..20).map(|_| bench.turn(&rates, None).len()).sum();
        assert_eq!(rest, 0);
        let held = bucket_loads(&bench.table, &rates, 4);
        assert!(*held.iter().max().unwrap() <= 2_000 * 102 / 100, "{held:?}");
    }

    #[test]
    fn what_takes_an_exchange_is_exchanged_in_one_change() {
        let entry = |entry, from, to, load| Move {
            entry,
            from: Bucket::new(from),
            to: Bucket::new(to),
            load,
        };
        // 90 and 60: only 40 against 25 levels them; a third move is left for later.
        let moves = vec![entry(0, 0, 1, 40), entry(1, 1, 0, 25), entry(2, 2, 3, 5)];
        let chosen = first(moves.clone(), 2, vec![90, 60, 50, 50]);
        let mut entries: Vec<usize> = chosen.iter().map(|chosen| chosen.entry).collect();
        entries.sort_unstable();
        assert_eq!(entries, [0, 1]);
        assert!(
            first(moves, 1, vec![90, 60, 50, 50]).is_empty(),
            "not half of an exchange"
        );
    }
}
