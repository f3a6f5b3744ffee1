//! The store against a map without bounds: what it returns is the newest value or nothing.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Hash, NotRead, Partition, Refused, Reservation, Settings, Source, hash};
use proptest::prelude::*;
use std::collections::HashMap;

const SEGMENT: usize = 4 << 10;
const SEED: u64 = 5;

/// An operation; keys and sizes are numbers.
#[derive(Clone, Debug)]
enum Operation {
    Get(u16),
    Set {
        key: u16,
        size: usize,
        lifetime: u32,
    },
    Reserve {
        key: u16,
        size: usize,
    },
    Fill {
        which: usize,
        bytes: usize,
    },
    Finish {
        which: usize,
        commits: bool,
    },
    Join {
        key: u16,
        size: usize,
        from_reserved: bool,
    },
    Touch {
        key: u16,
        lifetime: u32,
    },
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
        4 => (key.clone(), 0..300_usize, any::<bool>())
            .prop_map(|(key, size, from_reserved)| Operation::Join { key, size, from_reserved }),
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
    value: Vec<u8>,
}

/// The store and what it should know.
struct Model {
    store: Partition,
    known: HashMap<u16, Known>,
    open: Vec<(u16, u64, Vec<u8>, Reservation)>,
    version: u64,
    now: u32,
}

fn key_of(key: u16) -> (Hash, Vec<u8>) {
    let text = format!("{key:0width$}", width = 5 + usize::from(key) % 40).into_bytes();
    (hash(&text, SEED), text)
}

/// The bytes of a version of a value: different for each, and at each place.
fn bytes(version: u64, size: usize) -> Vec<u8> {
    let byte = |place| (version.wrapping_mul(31) as usize + place * 7 + place / 256) as u8;
    (0..size).map(byte).collect()
}

impl Model {
    fn new(segments: usize) -> Model {
        let settings = Settings {
            seed: SEED,
            segment: SEGMENT,
            evicts: true,
        };
        let mut store = Partition::new(memory(segments * SEGMENT), &settings).unwrap();
        store.count_classes(20, |_, _, value| value / 16);
        Model {
            store,
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
                    let value = bytes(self.version, size);
                    self.open.push((key, self.version, value, reservation));
                }
            }
            Operation::Fill { which, bytes } => self.fill(which, bytes),
            Operation::Finish { which, commits } => self.finish(which, commits),
            Operation::Join {
                key,
                size,
                from_reserved,
            } => self.join(key, size, from_reserved),
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
        let mut buffer = Vec::new();
        let reader = self.store.reader();
        let copied = reader.read((hash, &text), self.now, |_| true, &mut buffer);
        let Some(item) = self.store.read(hash, &text, self.now) else {
            assert_eq!(copied, Err(NotRead::Absent));
            return false;
        };
        let item = item.into_item();
        match (copied, item.value.whole()) {
            (Ok(copied), Some(value)) => {
                assert_eq!((copied.attributes, copied.value), (item.attributes, value));
            }
            (Ok(_), None) => panic!("a value in parts was copied"),
            (Err(error), whole) => assert!(
                error != NotRead::Changing && (error != NotRead::Parts || whole.is_none()),
                "{error}"
            ),
        }
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
        assert_eq!(item.value.to_vec(), known.value);
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
                        value,
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
        let (_, _, value, reservation) = &mut self.open[which];
        let from = value.len() - reservation.missing();
        let to = value.len().min(from + part);
        self.store.fill(reservation, &value[from..to], self.now);
    }

    fn finish(&mut self, which: usize, commits: bool) {
        if self.open.is_empty() {
            return;
        }
        let (key, version, value, mut reservation) = self.open.swap_remove(which % self.open.len());
        if commits {
            let from = value.len() - reservation.missing();
            self.store.fill(&mut reservation, &value[from..], self.now);
            self.commit(key, version, value, reservation);
        } else {
            self.store.cancel(reservation);
        }
    }

    fn commit(&mut self, key: u16, version: u64, value: Vec<u8>, reservation: Reservation) {
        let (cas, expiry) = (version, 0);
        let attributes = Attributes {
            cas,
            ..Attributes::default()
        };
        if self.store.commit(reservation, attributes, self.now).is_ok() {
            self.known.insert(
                key,
                Known {
                    version,
                    expiry,
                    value,
                },
            );
            assert!(self.get(key), "what was just committed is there");
        }
    }

    /// Appends to the value of a key, by way of two reservations if the new part is reserved, too.
    fn join(&mut self, key: u16, size: usize, from_reserved: bool) {
        let ((hash, text), now) = (key_of(key), self.now);
        let Some(item) = self.store.peek(hash, &text, now) else {
            return;
        };
        let (old, part) = (item.value.len(), bytes(self.version, size));
        let Ok(mut second) = self.store.reserve(hash, &text, size, now) else {
            return;
        };
        self.store.fill(&mut second, &part, self.now);
        let Ok(mut whole) = self.store.reserve(hash, &text, old + size, now) else {
            return self.store.cancel(second);
        };
        let stored = Source::Stored { hash, key: &text };
        let is_filled = self.store.fill_from(&mut whole, stored, now)
            && if from_reserved {
                self.store.fill_from(&mut whole, Source::Reserved(&second), now)
            } else {
                self.store.fill(&mut whole, &part, now)
            };
        self.store.cancel(second);
        if is_filled {
            self.version += 1;
            let value = [&self.known[&key].value[..], &part].concat();
            self.commit(key, self.version, value, whole);
        } else {
            self.store.cancel(whole);
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
