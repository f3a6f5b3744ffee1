//! Flow maps compared with the standard library's, alone and with concurrent readers.

use crate::common::SEED;
use corelane_table::{FlowKey, FlowMap, Lookup, Placement, Prefetch};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

type Ipv4Flow = FlowKey<2>;
type Ipv6Flow = FlowKey<5>;

/// The key of a number: bytes like those of a tuple; neighbouring numbers share most bytes.
fn ipv4_flow(number: u32) -> Ipv4Flow {
    let [a, b, c, d] = number.to_be_bytes();
    FlowKey::of_bytes(&[10, 0, a, b, 10, 0, 0, 1, c, d, 0, 80, 6])
}

fn ipv6_flow(number: u32) -> Ipv6Flow {
    let mut bytes = [0x20; 37];
    bytes[10..14].copy_from_slice(&number.to_be_bytes());
    bytes[36] = 17;
    FlowKey::of_bytes(&bytes)
}

fn empty<const WORDS: usize>() -> FlowMap<WORDS> {
    FlowMap::with_capacity(0, SEED, Placement::default()).unwrap()
}

fn behaves_like_a_btree_map<const WORDS: usize>(
    key: fn(u32) -> FlowKey<WORDS>,
    changes: &[(u32, Option<u32>)],
) {
    let mut map = empty::<WORDS>();
    let mut oracle = BTreeMap::new();
    let mut reader = map.reader();
    let keys: Vec<_> = (0..70).map(key).collect();
    for (number, change) in changes {
        let key = key(*number);
        match change {
            Some(value) => assert_eq!(map.insert(key, *value).unwrap(), oracle.insert(key, *value)),
            None => assert_eq!(map.remove(key), oracle.remove(&key)),
        }
        let mut answers = vec![None; keys.len()];
        reader.table().lookup(&keys, Prefetch::Ahead(9), &mut answers);
        let expected: Vec<_> = keys.iter().map(|key| oracle.get(key).copied()).collect();
        assert_eq!(answers, expected);
        assert_eq!(map.len(), oracle.len());
    }
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), oracle);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_lookup_equals_that_of_a_btree_map(
        changes in prop::collection::vec((0_u32..60, prop::option::weighted(0.6, any::<u32>())), 1..80),
    ) {
        behaves_like_a_btree_map(ipv4_flow, &changes);
        behaves_like_a_btree_map(ipv6_flow, &changes);
    }
}

#[test]
fn a_map_that_outgrows_its_records_keeps_every_flow_and_reuses_those_of_flows_that_left() {
    let mut map = empty::<2>();
    let mut reader = map.reader();
    for number in 0..300_000 {
        assert_eq!(map.insert(ipv4_flow(number), number).unwrap(), None);
    }
    let bytes = map.memory_bytes();
    for round in 1..4 {
        for number in 0..300_000 {
            assert_eq!(
                map.remove(ipv4_flow(number)),
                Some(number.wrapping_add((round - 1) * 7))
            );
            map.insert(ipv4_flow(number), number + round * 7).unwrap();
        }
    }
    assert_eq!((map.len(), map.memory_bytes()), (300_000, bytes));
    let keys: Vec<_> = (0..600_000).map(ipv4_flow).collect();
    let mut answers = vec![None; keys.len()];
    reader.table().lookup(&keys, Prefetch::default(), &mut answers);
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(
            answer,
            (number < 300_000).then_some(number as u32 + 21),
            "{number}"
        );
    }
}

/// Flows that are added and removed; the low bits of a value are those of its key, so a mixture is detected.
const FLOWS: u32 = 20_000;
const CHANGES: u32 = 400_000;

#[test]
fn readers_see_old_or_new_values_while_flows_come_and_go() {
    let mut map = empty::<2>();
    for number in (0..FLOWS).step_by(2) {
        map.insert(ipv4_flow(number), number).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (mut reader, done) = (map.reader(), &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let numbers: Vec<u32> = (0..256).map(|_| random.u32(..FLOWS)).collect();
                    let keys: Vec<_> = numbers.iter().copied().map(ipv4_flow).collect();
                    let mut answers = vec![None; keys.len()];
                    reader.table().lookup(&keys, Prefetch::Ahead(16), &mut answers);
                    for (number, answer) in numbers.iter().zip(answers) {
                        let right = answer.map_or(number % 2 == 1, |value| value % FLOWS == *number);
                        assert!(right, "flow {number} maps to {answer:?}");
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(5);
        for turn in 0..CHANGES {
            let number = random.u32(..FLOWS);
            if number % 2 == 1 && random.bool() {
                map.remove(ipv4_flow(number));
            } else {
                map.insert(ipv4_flow(number), number + FLOWS * (turn % 50))
                    .unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
