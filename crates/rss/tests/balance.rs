//! Rebalancing, compared with exhaustive search if possible, otherwise with planted solutions and lower bounds.

use corelane_rss::balance::{Options, Rebalanced, bucket_loads, rebalance};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Toeplitz, Tuple};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

/// The permitted ratio of the fullest bucket to the best possible assignment.
const WITHIN: f64 = 1.05;

/// Reproducible numbers, evenly distributed over 64 bits (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Loads of which the k-th largest is proportional to `k` to the power of `-exponent`.
fn zipf(count: usize, exponent: f64) -> Vec<u64> {
    (1..=count)
        .map(|rank| (1e9 / (rank as f64).powf(exponent)) as u64)
        .collect()
}

fn round_robin(size: usize, buckets: usize) -> IndirectionTable {
    IndirectionTable::round_robin(size, buckets).unwrap()
}

fn assert_near_the_bound(decided: &Rebalanced, what: &str) {
    let share = decided.fullest_after as f64 / decided.bound as f64;
    assert!(share <= WITHIN, "{what}: {share:.3} of the bound");
}

#[test]
fn a_zipf_load_over_128_entries_comes_within_5_percent_of_the_best_possible() {
    let mut numbers = Numbers(1);
    for exponent in [0.3, 0.7, 1.0, 1.3, 2.0] {
        for buckets in 2..=128 {
            let mut loads = zipf(128, exponent);
            numbers.shuffle(&mut loads);
            let decided = rebalance(&round_robin(128, buckets), &loads, Options::new(buckets)).unwrap();
            assert_near_the_bound(&decided, &format!("exponent {exponent}, {buckets} buckets"));
        }
    }
}

#[test]
fn zipf_flows_hashed_onto_128_entries_come_within_5_percent_of_the_best_possible() {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let server: SocketAddr = "10.11.2.1:8080".parse().unwrap();
    for seed in 0..10 {
        let mut numbers = Numbers(seed);
        let mut loads = vec![0; 128];
        for datagrams in zipf(5000, 1.1) {
            let address = Ipv4Addr::from(0x0a0c_0000 | numbers.below(1 << 16) as u32);
            let source = SocketAddr::from((address, 1024 + numbers.below(60_000) as u16));
            let hash = toeplitz.hash(&Tuple::new(source, server).unwrap(), HashFields::FourTuple);
            loads[hash as usize % 128] += datagrams;
        }
        for buckets in [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] {
            let decided = rebalance(&round_robin(128, buckets), &loads, Options::new(buckets)).unwrap();
            assert_near_the_bound(&decided, &format!("seed {seed}, {buckets} buckets"));
        }
    }
}

#[test]
fn a_split_that_is_known_to_be_perfect_is_found_within_2_percent() {
    const SHARE: u64 = 1_000_000;
    for (buckets, entries_each) in [(4, 4), (8, 16), (16, 2), (32, 4), (64, 2)] {
        for seed in 0..5 {
            let mut numbers = Numbers(seed);
            let mut loads: Vec<u64> = Vec::new();
            for _ in 0..buckets {
                let mut cuts: Vec<u64> = (1..entries_each).map(|_| numbers.below(SHARE)).collect();
                cuts.extend([0, SHARE]);
                cuts.sort_unstable();
                loads.extend(cuts.windows(2).map(|pair| pair[1] - pair[0]));
            }
            numbers.shuffle(&mut loads);
            let exact = Options {
                tolerance: 0.0,
                ..Options::new(buckets)
            };
            let decided = rebalance(&round_robin(loads.len(), buckets), &loads, exact).unwrap();
            assert_eq!(decided.bound, SHARE, "the planted split is the best there is");
            let above = decided.fullest_after as f64 / SHARE as f64;
            assert!(
                above <= 1.02,
                "{buckets} buckets of {entries_each}, seed {seed}: {above:.4}"
            );
        }
    }
}

/// For every assignment of the loads to the buckets: its fullest bucket, and the number of entries that differ from
/// `origin`.
fn every_assignment(loads: &[u64], origin: &[usize], buckets: usize) -> Vec<(u64, usize)> {
    let assignments = buckets.pow(loads.len() as u32);
    let outcome = |number: usize| {
        let mut held = vec![0; buckets];
        let (mut rest, mut moved) = (number, 0);
        for (load, home) in loads.iter().zip(origin) {
            held[rest % buckets] += load;
            moved += usize::from(rest % buckets != *home);
            rest /= buckets;
        }
        (held.into_iter().max().unwrap(), moved)
    };
    (0..assignments).map(outcome).collect()
}

#[test]
fn few_entries_come_within_5_percent_of_an_exhaustive_search_by_its_moves_or_hardly_more() {
    const CASES: u64 = 600;
    let mut with_the_fewest = 0;
    for seed in 0..CASES {
        let mut numbers = Numbers(seed);
        let buckets = 2 + numbers.below(2) as usize;
        let largest = [10, 100, 100_000][numbers.below(3) as usize];
        let mut loads: Vec<u64> = (0..8).map(|_| numbers.below(largest)).collect();
        loads[0] *= 1 + numbers.below(3);
        let origin: Vec<usize> = (0..8).map(|_| numbers.below(buckets as u64) as usize).collect();
        let entries = origin.iter().map(|&bucket| Bucket::new(bucket as u16)).collect();
        let table = IndirectionTable::from_entries(entries).unwrap();
        let decided = rebalance(&table, &loads, Options::new(buckets)).unwrap();

        let all = every_assignment(&loads, &origin, buckets);
        let best = all.iter().map(|(fullest, _)| *fullest).min().unwrap();
        let what = format!("seed {seed}: {loads:?} in {origin:?}: {decided:?}");
        assert!(decided.bound <= best, "a bound above the best, {best}. {what}");
        assert!(
            decided.fullest_after as f64 <= best as f64 * WITHIN,
            "the best is {best}. {what}"
        );
        let within = all.iter().filter(|(fullest, _)| *fullest <= decided.level);
        let fewest = within.map(|(_, moved)| *moved).min().unwrap();
        assert!(
            decided.moves_bound <= fewest,
            "a bound above the fewest, {fewest}. {what}"
        );
        assert!(
            decided.moves.len() <= fewest + 1,
            "{fewest} moves are enough. {what}"
        );
        with_the_fewest += u64::from(decided.moves.len() == fewest);
    }
    assert!(
        with_the_fewest * 100 >= CASES * 97,
        "the fewest moves in {with_the_fewest} of {CASES} only"
    );
}

#[test]
fn one_misplaced_entry_is_one_move() {
    // Two heavy entries share bucket 0; either may move.
    let table = round_robin(8, 2);
    let loads = [50, 10, 30, 10, 0, 10, 0, 0];
    let decided = rebalance(&table, &loads, Options::new(2)).unwrap();
    assert_eq!((decided.fullest_before, decided.fullest_after), (80, 60));
    let [moved] = decided.moves[..] else {
        panic!("{decided:?}")
    };
    assert_eq!(
        (moved.entry, moved.from, moved.to, moved.load),
        (2, Bucket::new(0), Bucket::new(1), 30)
    );
}

#[test]
fn a_bucket_without_entries_gets_its_share() {
    let decided = rebalance(&round_robin(128, 3), &[1000; 128], Options::new(4)).unwrap();
    let loads = bucket_loads(&decided.table, &[1000; 128], 4);
    assert_eq!(loads, [32_000; 4]);
    assert_eq!(decided.moves.len(), 32, "no more than fill the new bucket");
}

#[test]
fn a_level_table_stays_as_it_is() {
    for loads in [[0; 16], [7; 16]] {
        let decided = rebalance(&round_robin(16, 4), &loads, Options::new(4)).unwrap();
        assert_eq!((decided.moves, decided.table), (vec![], round_robin(16, 4)));
    }
}

#[test]
fn what_does_not_hold_together_is_refused_with_the_reason() {
    let table = round_robin(8, 4);
    let refused = |loads: &[u64], options| rebalance(&table, loads, options).unwrap_err().to_string();
    let error = refused(&[1; 7], Options::new(4));
    assert!(
        error.starts_with("7 loads for an indirection table of 8 entries"),
        "{error}"
    );
    let error = refused(&[u64::MAX; 8], Options::new(4));
    assert!(error.starts_with("the loads add up to more than 2^64"), "{error}");
    for buckets in [0, 3, 4097] {
        let error = refused(&[1; 8], Options::new(buckets));
        let expected = format!("{buckets} buckets for a table that names 4: give 4 to 4096");
        assert_eq!(error, expected);
    }
    for tolerance in [-0.1, 1.5, f64::NAN] {
        let error = refused(
            &[1; 8],
            Options {
                tolerance,
                ..Options::new(4)
            },
        );
        assert!(
            error.starts_with(&format!("a tolerance of {tolerance}")),
            "{error}"
        );
    }
}

/// A table in any state, loads from zero to a few that outweigh all others, and buckets of which some may be new.
fn case() -> impl Strategy<Value = (IndirectionTable, Vec<u64>, Options)> {
    let load = prop_oneof![Just(0), 0_u64..100, 1_u64..1_000_000, 0_u64..1 << 50];
    (0_u32..=7, 1_u16..=20, 0_usize..3, 0.0..0.3).prop_flat_map(move |(bits, named, new, tolerance)| {
        let size = 1 << bits;
        let numbers = prop::collection::vec((0..named).prop_map(Bucket::new), size);
        let loads = prop::collection::vec(load.clone(), size);
        (numbers, loads).prop_map(move |(numbers, loads)| {
            let table = IndirectionTable::from_entries(numbers).unwrap();
            let buckets = usize::from(named) + new;
            (table, loads, Options { buckets, tolerance })
        })
    })
}

proptest! {
    #[test]
    fn a_decision_holds_together((table, loads, options) in case()) {
        let decided = rebalance(&table, &loads, options).unwrap();
        let mut entries = table.entries().to_vec();
        for moved in &decided.moves {
            prop_assert_eq!((entries[moved.entry], loads[moved.entry]), (moved.from, moved.load));
            prop_assert!(moved.from != moved.to && moved.to.index() < options.buckets && moved.load > 0);
            entries[moved.entry] = moved.to;
        }
        prop_assert!(decided.moves.is_sorted_by_key(|moved| moved.entry));
        prop_assert_eq!(decided.table.entries(), &entries);
        let fullest = |table: &IndirectionTable| bucket_loads(table, &loads, options.buckets).into_iter().max();
        prop_assert_eq!(Some(decided.fullest_before), fullest(&table));
        prop_assert_eq!(Some(decided.fullest_after), fullest(&decided.table));
        prop_assert!(decided.bound <= decided.fullest_after && decided.bound <= decided.level);
        prop_assert!(decided.fullest_after <= decided.level.min(decided.fullest_before));
        prop_assert!(decided.moves_bound <= decided.moves.len());
        prop_assert_eq!(rebalance(&table, &loads, options).unwrap(), decided);
    }

    #[test]
    fn without_any_one_of_the_moves_a_bucket_exceeds_the_level((table, loads, options) in case()) {
        let decided = rebalance(&table, &loads, options).unwrap();
        for left_out in &decided.moves {
            let mut entries = decided.table.entries().to_vec();
            entries[left_out.entry] = left_out.from;
            let without = IndirectionTable::from_entries(entries).unwrap();
            let fullest = bucket_loads(&without, &loads, options.buckets).into_iter().max().unwrap();
            prop_assert!(fullest > decided.level, "{:?} of {:?} is not needed", left_out, decided);
        }
    }
}
