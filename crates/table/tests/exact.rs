//! Exact maps compared with the standard library's, alone and with concurrent readers.

use crate::common::{SEED, address, value};
use corelane_table::{Address, ExactMap, Lookup, Placement, Prefetch, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn empty<A: Address>() -> ExactMap<A> {
    ExactMap::with_capacity(0, SEED, Placement::default()).unwrap()
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u32, u16),
    Remove(u32),
    InsertMany(Vec<(u32, u16)>),
    Replace(Vec<(u32, u16)>),
}

fn change() -> impl Strategy<Value = Change> {
    let key = 0_u32..40;
    let pairs = |most| prop::collection::vec((0_u32..40, 0_u16..=Value::LARGEST), 0..most);
    prop_oneof![
        8 => (key.clone(), 0_u16..=Value::LARGEST).prop_map(|(key, value)| Change::Insert(key, value)),
        6 => key.prop_map(Change::Remove),
        1 => pairs(20).prop_map(Change::InsertMany),
        1 => pairs(20).prop_map(Change::Replace),
    ]
}

fn entries<A: Address>(pairs: &[(u32, u16)]) -> Vec<(A, Value)> {
    pairs
        .iter()
        .map(|(key, of)| (address(*key), value(*of)))
        .collect()
}

fn behaves_like_a_btree_map<A: Address>(changes: &[Change]) {
    let mut map = empty::<A>();
    let mut oracle = BTreeMap::new();
    let mut reader = map.reader();
    let keys: Vec<A> = (0..50).map(address).collect();
    for change in changes {
        match change {
            Change::Insert(key, of) => {
                let before = map.insert(address(*key), value(*of)).unwrap();
                assert_eq!(before, oracle.insert(address(*key), value(*of)));
            }
            Change::Remove(key) => assert_eq!(map.remove(address(*key)), oracle.remove(&address(*key))),
            Change::InsertMany(pairs) => {
                map.insert_all(&entries(pairs)).unwrap();
                oracle.extend(entries::<A>(pairs));
            }
            Change::Replace(pairs) => {
                let mut other = empty();
                other.insert_all(&entries(pairs)).unwrap();
                map.replace(other);
                oracle = entries(pairs).into_iter().collect();
            }
        }
        let expected: Vec<_> = keys.iter().map(|key| oracle.get(key).copied()).collect();
        for prefetch in [
            Prefetch::None,
            Prefetch::Ahead(0),
            Prefetch::Ahead(7),
            Prefetch::default(),
        ] {
            let mut answers = vec![None; keys.len()];
            reader.table().lookup(&keys, prefetch, &mut answers);
            assert_eq!(answers, expected, "{prefetch:?}");
        }
        assert_eq!(map.len(), oracle.len());
        assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), oracle);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_lookup_equals_that_of_a_btree_map(changes in prop::collection::vec(change(), 1..60)) {
        behaves_like_a_btree_map::<Ipv4Addr>(&changes);
        behaves_like_a_btree_map::<Ipv6Addr>(&changes);
    }
}

/// Fills a map far beyond its first size and removes most of its entries again.
fn grows_and_shrinks<A: Address>() {
    let mut random = fastrand::Rng::with_seed(7);
    let numbers: Vec<u32> = (0..400_000).map(|_| random.u32(..)).collect();
    let mut map = empty::<A>();
    let mut oracle = BTreeMap::new();
    let first = map.memory_bytes();
    for number in &numbers {
        assert_eq!(
            map.insert(address(*number), value(*number as u16)).unwrap(),
            oracle.insert(address::<A>(*number), value(*number as u16))
        );
    }
    assert!(map.memory_bytes() > first);
    for number in numbers.iter().skip(1_000) {
        assert_eq!(
            map.remove(address(*number)),
            oracle.remove(&address::<A>(*number))
        );
    }
    assert_eq!(map.len(), oracle.len());
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), oracle);
    for number in &numbers {
        assert_eq!(
            map.table().get(address(*number)),
            oracle.get(&address::<A>(*number)).copied()
        );
    }
}

#[test]
fn a_map_that_outgrows_its_lines_keeps_every_entry() {
    grows_and_shrinks::<Ipv4Addr>();
    grows_and_shrinks::<Ipv6Addr>();
}

#[test]
fn six_million_ipv4_entries_take_at_most_twelve_bytes_each_however_they_came() {
    let mut random = fastrand::Rng::with_seed(3);
    let entries: Vec<_> = (0..6_000_000)
        .map(|_| (Ipv4Addr::from_bits(random.u32(..)), Value::MEMBER))
        .collect();
    for capacity in [0, entries.len()] {
        let mut map = ExactMap::with_capacity(capacity, SEED, Placement::default()).unwrap();
        map.insert_all(&entries).unwrap();
        let bytes = map.memory_bytes() as f64 / map.len() as f64;
        assert!(bytes <= 12.0, "made for {capacity}: {bytes} bytes per entry");
    }
}

/// Number of keys that are always present, and number of keys that are added and removed.
const STABLE: u32 = 60_000;
const CHANGING: u32 = 30_000;
/// Number of changes by the writer.
const CHANGES: u32 = 400_000;

/// Whether `value` is one of the four values of the key, which differ from those of neighbouring keys.
fn is_a_value_of(number: u32, value: Value) -> bool {
    u32::from(value.get()) / 4 == number % 1_000
}

/// The `version`th value of the key.
fn version_of(number: u32, version: u32) -> Value {
    value((number % 1_000 * 4 + version % 4) as u16)
}

/// The numbers of the stable keys are even, those of the changing ones odd, spread over the whole range.
fn stable(index: u32) -> u32 {
    (index % STABLE).wrapping_mul(0x9e37_79b1) & !1
}

fn changing(index: u32) -> u32 {
    (index % CHANGING).wrapping_mul(0x85eb_ca6b) | 1
}

fn readers_and_a_writer<A: Address>() {
    let mut map = empty::<A>();
    for index in 0..STABLE {
        map.insert(address(stable(index)), version_of(stable(index), 0))
            .unwrap();
    }
    let done = AtomicBool::new(false);
    let lookups = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..2 {
            let mut reader = map.reader();
            let (done, lookups) = (&done, &lookups);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let numbers: Vec<u32> = (0..256)
                        .map(|key| {
                            if key % 2 == 0 {
                                stable(random.u32(..))
                            } else {
                                changing(random.u32(..))
                            }
                        })
                        .collect();
                    let keys: Vec<A> = numbers.iter().copied().map(address).collect();
                    let mut answers = vec![None; keys.len()];
                    reader.table().lookup(&keys, Prefetch::Ahead(16), &mut answers);
                    for (number, answer) in numbers.iter().zip(answers) {
                        let right = match answer {
                            Some(value) => is_a_value_of(*number, value),
                            None => number % 2 == 1,
                        };
                        assert!(right, "key {number} maps to {answer:?}");
                    }
                    lookups.fetch_add(256, Ordering::Relaxed);
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(9);
        for turn in 0..CHANGES {
            let number = if turn % 3 == 0 {
                stable(random.u32(..))
            } else {
                changing(random.u32(..))
            };
            if number % 2 == 1 && random.bool() {
                map.remove(address(number));
            } else {
                map.insert(address(number), version_of(number, turn)).unwrap();
            }
            if turn % 40_000 == 0 {
                // The same entries in lines of another seed and size, replaced at once.
                let mut other =
                    ExactMap::with_capacity(map.len() + turn as usize / 8, SEED, Placement::default())
                        .unwrap();
                other.insert_all(&map.iter().collect::<Vec<_>>()).unwrap();
                map.replace(other);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(lookups.load(Ordering::Relaxed) > 0);
}

#[test]
fn readers_see_old_or_new_values_while_a_writer_changes_and_replaces() {
    readers_and_a_writer::<Ipv4Addr>();
    readers_and_a_writer::<Ipv6Addr>();
}

/// Two tables of the post's size: one maps its keys to 1; the other has half of these keys and as many others, mapped
/// to 2. Readers must get only values of one of the tables, and within one batch only values of the same table.
#[test]
fn replacing_six_million_entries_gives_no_answer_that_neither_table_would() {
    const ENTRIES: u32 = 6_000_000;
    const REPLACED: u32 = 3;
    let table = |first: u32, number: u16| {
        let mut map = ExactMap::with_capacity(ENTRIES as usize, SEED, Placement::default()).unwrap();
        let entries: Vec<_> = (first..first + ENTRIES)
            .map(|key| (Ipv4Addr::from_bits(key.wrapping_mul(0x9e37_79b1)), value(number)))
            .collect();
        map.insert_all(&entries).unwrap();
        map
    };
    let of_both = |key: u32| (key < ENTRIES, (ENTRIES / 2..ENTRIES / 2 + ENTRIES).contains(&key));
    let mut map = table(0, 1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (mut reader, done) = (map.reader(), &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut answers = [None; 64];
                while !done.load(Ordering::Relaxed) {
                    let numbers: [u32; 64] = std::array::from_fn(|_| random.u32(..2 * ENTRIES));
                    let keys = numbers.map(|key| Ipv4Addr::from_bits(key.wrapping_mul(0x9e37_79b1)));
                    reader.table().lookup(&keys, Prefetch::default(), &mut answers);
                    let of_first = numbers.map(|key| of_both(key).0.then(|| value(1)));
                    let of_second = numbers.map(|key| of_both(key).1.then(|| value(2)));
                    assert!(
                        answers == of_first || answers == of_second,
                        "seed {seed}: {answers:?}"
                    );
                }
            });
        }
        for turn in 0..REPLACED {
            map.replace(if turn % 2 == 0 {
                table(ENTRIES / 2, 2)
            } else {
                table(0, 1)
            });
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(map.reclaim(), 0);
}
