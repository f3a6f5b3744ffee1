//! The store against a map without bounds: what it returns is the newest value or nothing.

use super::invariants::check;
use crate::{Attributes, Hash, Partition, Refused, Reservation, Settings, hash};
use proptest::prelude::*;
use std::collections::HashMap;

const SEGMENT: usize = 4 << 10;
const SEED: u64 = 5;

/// An operation; keys and sizes are numbers.
#[derive(Clone, Debug)]
enum Operation {
    Get(u16),
    Set { key: u16, size: usize, lifetime: u32 },
    Reserve { key: u16, size: usize },
    Fill { which: usize, bytes: usize },
    Finish { which: usize, commits: bool },
    Touch { key: u16, lifetime: u32 },
    Remove(u16),
    Flush,
    Tidy(usize),
    Wait(u32),
}

fn operations() -> impl Strategy<Value = Operation> {
    let key = 0..600_u16;
    let size = prop_oneof![20 => 0..200_usize, 4 => 0..SEGMENT, 1 => 0..5 * SEGMENT];
    let lifetime = prop_oneof![2 => Just(0), 1 => 1..20_u32];
    prop_oneof![
        20 => key.clone().prop_map(Operation::Get),
        40 => (key.clone(), size.clone(), lifetime.clone())
            .prop_map(|(key, size, lifetime)| Operation::Set { key, size, lifetime }),
        4 => (key.clone(), size).prop_map(|(key, size)| Operation::Reserve { key, size }),
        6 => (any::<usize>(), 0..SEGMENT).prop_map(|(which, bytes)| Operation::Fill { which, bytes }),
        3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(which, commits)| Operation::Finish { which, commits }),
        5 => (key.clone(), lifetime).prop_map(|(key, lifetime)| Operation::Touch { key, lifetime }),
        5 => key.prop_map(Operation::Remove),
        1 => prop::bool::weighted(0.1).prop_map(|all| if all { Operation::Flush } else { Operation::Wait(0) }),
        3 => (0..300_usize).prop_map(Operation::Tidy),
        3 => (0..4_u32).prop_map(Operation::Wait),
    ]
}

struct Known {
    version: u64,
    expiry: u32,
    size: usize,
}

/// The store and what it should know.
struct Model {
    store: Partition<Vec<u8>>,
    known: HashMap<u16, Known>,
    open: Vec<(u16, usize, u64, Reservation)>,
    version: u64,
    now: u32,
}

fn key_of(key: u16) -> (Hash, Vec<u8>) {
    let text = format!("{key:0width$}", width = 5 + usize::from(key) % 40).into_bytes();
    (hash(&text, SEED), text)
}

/// The bytes of a version of a value: different for each, and at each place.
fn byte(version: u64, place: usize) -> u8 {
    (version.wrapping_mul(31) as usize + place * 7 + place / 256) as u8
}

fn bytes(version: u64, size: usize) -> Vec<u8> {
    (0..size).map(|place| byte(version, place)).collect()
}

impl Model {
    fn new(segments: usize) -> Model {
        let settings = Settings {
            seed: SEED,
            segment: SEGMENT,
        };
        Model {
            store: Partition::new(vec![0xa5; segments * SEGMENT], &settings).unwrap(),
            known: HashMap::new(),
            open: Vec::new(),
            version: 0,
            now: 1,
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Get(key) => {
                self.get(key);
            }
            Operation::Set { key, size, lifetime } => self.set(key, size, lifetime),
            Operation::Reserve { key, size } => {
                let (hash, text) = key_of(key);
                self.version += 1;
                if let Ok(reservation) = self.store.reserve(hash, &text, size, self.now) {
                    self.open.push((key, size, self.version, reservation));
                }
            }
            Operation::Fill { which, bytes } => self.fill(which, bytes),
            Operation::Finish { which, commits } => self.finish(which, commits),
            Operation::Touch { key, lifetime } => {
                let (hash, text) = key_of(key);
                let expiry = if lifetime == 0 { 0 } else { self.now + lifetime };
                if let Some(mut item) = self.store.change(hash, &text, self.now) {
                    let attributes = item.item().attributes;
                    item.set_attributes(Attributes { expiry, ..attributes });
                    self.known.get_mut(&key).expect("it was stored").expiry = expiry;
                }
            }
            Operation::Remove(key) => {
                let was_there = self.get(key);
                let (hash, text) = key_of(key);
                assert_eq!(self.store.remove(hash, &text, self.now), was_there);
                self.known.remove(&key);
            }
            Operation::Flush => {
                self.store.flush();
                self.known.clear();
            }
            Operation::Tidy(budget) => {
                self.store.tidy(self.now, budget);
            }
            Operation::Wait(seconds) => self.now += seconds,
        }
    }

    /// Whether the key was found; what was found is right.
    fn get(&mut self, key: u16) -> bool {
        let (hash, text) = key_of(key);
        let Some(item) = self.store.get(hash, &text, self.now) else {
            return false;
        };
        let known = self.known.get(&key).expect("what is found was stored");
        assert_eq!(item.key, text);
        assert_eq!(
            item.attributes.cas, known.version,
            "key {key} has its newest version"
        );
        assert!(
            known.expiry == 0 || known.expiry > self.now,
            "key {key} has expired"
        );
        assert_eq!(item.value.to_vec(), bytes(known.version, known.size));
        true
    }

    fn set(&mut self, key: u16, size: usize, lifetime: u32) {
        let (hash, text) = key_of(key);
        self.version += 1;
        let attributes = Attributes {
            cas: self.version,
            expiry: if lifetime == 0 { 0 } else { self.now + lifetime },
            ..Attributes::default()
        };
        let value = bytes(self.version, size);
        match self.store.set(hash, &text, &value, attributes, self.now) {
            Ok(()) => {
                let expiry = attributes.expiry;
                let version = self.version;
                self.known.insert(
                    key,
                    Known {
                        version,
                        expiry,
                        size,
                    },
                );
                assert!(self.get(key), "what was just stored is there");
            }
            Err(Refused::TooLarge(_) | Refused::Full) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn fill(&mut self, which: usize, part: usize) {
        if self.open.is_empty() {
            return;
        }
        let which = which % self.open.len();
        let (_, size, version, reservation) = &mut self.open[which];
        let from = *size - reservation.missing();
        let to = (*size).min(from + part);
        let part: Vec<u8> = (from..to).map(|place| byte(*version, place)).collect();
        self.store.fill(reservation, &part);
    }

    fn finish(&mut self, which: usize, commits: bool) {
        if self.open.is_empty() {
            return;
        }
        let (key, size, version, mut reservation) = self.open.swap_remove(which % self.open.len());
        let from = size - reservation.missing();
        let rest: Vec<u8> = (from..size).map(|place| byte(version, place)).collect();
        if !commits {
            return self.store.cancel(reservation);
        }
        self.store.fill(&mut reservation, &rest);
        let attributes = Attributes {
            cas: version,
            ..Attributes::default()
        };
        if self.store.commit(reservation, attributes, self.now).is_ok() {
            let expiry = 0;
            self.known.insert(
                key,
                Known {
                    version,
                    expiry,
                    size,
                },
            );
            assert!(self.get(key), "what was just committed is there");
        }
    }
}

proptest! {
    #[test]
    fn what_is_returned_is_the_newest_value(
        segments in 8..40_usize,
        operations in prop::collection::vec(operations(), 1..800),
    ) {
        let mut model = Model::new(segments);
        for operation in &operations {
            model.apply(operation);
            check(&model.store);
        }
    }
}
