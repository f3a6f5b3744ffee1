//! What readers see of items that they change, and of values that are not complete.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Hash, Marks, Partition, Settings, hash};

const KEY: &[u8] = b"key";

fn store() -> (Partition, Hash) {
    let settings = Settings {
        seed: 5,
        segment: 4 << 10,
        evicts: true,
    };
    let store = Partition::new(memory(64 << 10), &settings).unwrap();
    (store, hash(KEY, settings.seed))
}

#[test]
fn a_reader_that_changes_an_item_decides_on_its_attributes() {
    let (mut store, hash) = store();
    let attributes = Attributes {
        cas: 7,
        accessed: 10,
        ..Attributes::default()
    };
    store.set(hash, KEY, b"value", attributes, 10).unwrap();
    let mut item = store.read(hash, KEY, 20).unwrap();
    assert_eq!(item.item().attributes, attributes);
    let marked = Attributes {
        marks: Marks::from_bits(u8::MAX),
        ..attributes
    };
    item.set_attributes(marked);
    assert_eq!(store.peek(hash, KEY, 20).unwrap().attributes, marked);
    assert_eq!(marked.marks.bits(), 63);
    assert_eq!(Hash::of_value(hash.value()), hash);
}

#[test]
fn an_item_that_is_gone_is_reclaimed_when_it_is_looked_for() {
    let (mut store, hash) = store();
    let attributes = Attributes {
        expiry: 10,
        ..Attributes::default()
    };
    for round in 1..3 {
        store.set(hash, KEY, b"value", attributes, 1).unwrap();
        assert!(store.peek(hash, KEY, 10).is_none());
        assert!(store.read(hash, KEY, 10).is_none() && store.change(hash, KEY, 10).is_none());
        store.set(hash, KEY, b"value", attributes, 1).unwrap();
        store.flush();
        assert!(store.change(hash, KEY, 1).is_none() && store.read(hash, KEY, 1).is_none());
        check(&store);
        let counts = store.counts();
        assert_eq!((counts.found_expired, counts.found_flushed), (round, round));
        assert_eq!((counts.expired, counts.flushed, counts.items), (round, round, 0));
    }
}

#[test]
fn a_value_that_is_not_committed_is_seen_through_its_reservation_only() {
    let (mut store, hash) = store();
    let value: Vec<u8> = (0..9_000).map(|byte| byte as u8).collect();
    for length in [5, value.len()] {
        let value = &value[..length];
        let mut reservation = store.reserve(hash, KEY, length, 1).unwrap();
        assert!(store.fill(&mut reservation, value, 1));
        assert_eq!(store.reserved(&reservation).unwrap().to_vec(), value);
        assert!(store.peek(hash, KEY, 1).is_none());
        store.cancel(reservation);
    }
}
