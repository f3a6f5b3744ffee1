//! A store that evicts nothing: it refuses what does not fit, and uses the memory of items that are gone.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Hash, Partition, Refused, Settings, hash};

const SETTINGS: Settings = Settings {
    seed: 3,
    segment: 128 << 10,
    evicts: false,
};

fn key(number: u64) -> (Hash, [u8; 8]) {
    let key = number.to_le_bytes();
    (hash(&key, SETTINGS.seed), key)
}

fn store() -> Partition {
    Partition::new(memory(4 << 20), &SETTINGS).unwrap()
}

fn set(store: &mut Partition, number: u64, bytes: usize, expiry: u32, now: u32) -> Result<(), Refused> {
    let (hash, key) = key(number);
    let attributes = Attributes {
        expiry,
        ..Attributes::default()
    };
    store.set(hash, &key, &vec![number as u8; bytes], attributes, now)
}

/// Stores items from a number on until one is refused; the next number.
fn fill(store: &mut Partition, first: u64, bytes: usize, expiry: u32, now: u32) -> u64 {
    let refused = (first..).find(|number| set(store, *number, bytes, expiry, now).is_err());
    refused.expect("memory ends")
}

#[test]
fn a_full_store_refuses_and_keeps_all_that_it_has() {
    let mut store = store();
    let items = fill(&mut store, 0, 1_000, 0, 1);
    assert!(items > 3_500, "{items} items of 1,040 bytes in 4 MiB");
    for number in 0..1_000 {
        assert_eq!(set(&mut store, items + number, 5_000, 0, 1), Err(Refused::Full));
    }
    check(&store);
    for number in 0..items {
        let (hash, key) = key(number);
        let item = store.peek(hash, &key, 1).expect("it is kept");
        assert_eq!(item.value.to_vec(), vec![number as u8; 1_000]);
    }
    assert_eq!(store.counts().evicted, 0);
}

#[test]
fn the_memory_of_items_that_were_removed_is_used_again() {
    for share in [2, 4, 7] {
        let mut store = store();
        let items = fill(&mut store, 0, 1_000, 0, 1);
        for number in (0..items).step_by(share) {
            let (hash, key) = key(number);
            assert!(store.remove(hash, &key, 1));
        }
        let removed = items.div_ceil(share as u64);
        let more = fill(&mut store, items, 1_000, 0, 1) - items;
        check(&store);
        assert!(
            more * 10 > removed * 8,
            "{more} more items after {removed} were removed"
        );
        assert_eq!(store.counts().items, items - removed + more);
        assert_eq!(store.counts().evicted, 0);
    }
}

#[test]
fn the_memory_of_expired_items_is_used_again() {
    let mut store = store();
    let items = fill(&mut store, 0, 1_000, 10, 1);
    while store.tidy(10, 100) {}
    let more = fill(&mut store, items, 1_000, 0, 10) - items;
    assert_eq!(more, items);
    assert_eq!(store.counts().expired, items);
}

#[test]
fn the_memory_of_flushed_and_expired_items_is_used_before_something_is_refused() {
    let mut store = store();
    let items = fill(&mut store, 0, 1_000, 10, 1);
    let more = fill(&mut store, items, 1_000, 10, 10) - items;
    assert_eq!(
        (more, store.counts().expired),
        (items, items),
        "the first ones have expired"
    );
    store.flush();
    let more = fill(&mut store, 2 * items, 1_000, 0, 10) - 2 * items;
    assert!(more >= items * 9 / 10, "{more} items after {items} were flushed");
    assert_eq!(store.counts().evicted, 0);
    check(&store);
    store.flush();
    assert_eq!(set(&mut store, 0, 1 << 20, 0, 10), Ok(()), "a large value");
}

/// Stores of many sizes, since in few of them the index is the first that is full.
#[test]
fn a_value_is_replaced_where_the_index_has_no_room_for_a_new_key() {
    let mut seen = 0;
    for (segments, bytes) in (8..60).flat_map(|segments| [(segments, 8), (segments, 24)]) {
        let segment = 4 << 10;
        let settings = Settings { segment, ..SETTINGS };
        let mut store = Partition::new(memory(segments * segment), &settings).unwrap();
        let items = fill(&mut store, 0, bytes, 0, 1);
        let (hash, text) = key(items);
        let Ok(room) = store.reserve(hash, &text, bytes + 8, 1) else {
            continue;
        };
        store.cancel(room);
        if set(&mut store, items, bytes, 0, 1).is_err() {
            seen += 1;
            assert_eq!(set(&mut store, 0, bytes + 8, 0, 1), Ok(()));
        }
        check(&store);
    }
    assert!(seen > 0, "no index was full");
}

/// Values of three quarters of a segment have one each. Copying them frees nothing: it would only take the place of copying what does.
#[test]
fn segments_of_single_values_are_not_compacted() {
    let mut store = store();
    for number in 0..20 {
        assert_eq!(set(&mut store, number, 96 << 10, 10, 1), Ok(()));
        let (hash, key) = key(number);
        let mut item = store.change(hash, &key, 1).expect("it was stored");
        item.set_attributes(Attributes::default());
    }
    let items = fill(&mut store, 20, 1_000, 0, 1);
    // It looks at the values, since they would have expired.
    while store.tidy(10, 100) {}
    for number in (20..items).step_by(2) {
        let (hash, key) = key(number);
        assert!(store.remove(hash, &key, 1));
    }
    let removed = (items - 20) / 2;
    let more = fill(&mut store, items, 1_000, 0, 1) - items;
    assert!(
        more * 10 > removed * 8,
        "{more} more items after {removed} were removed"
    );
    check(&store);
    for number in 0..20 {
        let (hash, key) = key(number);
        assert!(store.remove(hash, &key, 1));
        assert_eq!(
            set(&mut store, number, 96 << 10, 0, 1),
            Ok(()),
            "its memory is used again"
        );
    }
}

/// Values of most sizes, so that what is copied fits worse than before.
#[test]
fn items_of_any_size_replace_each_other_without_loss() {
    let mut store = store();
    let mut sizes = vec![None; 600];
    for step in 0..60_000_u64 {
        let number = step.wrapping_mul(0x9e37_79b9) >> 7 & 0x1ff;
        let bytes = ((step.wrapping_mul(0x85eb_ca6b) >> 11) as usize % 70_000) >> (step % 9);
        match set(&mut store, number, bytes, 0, 1) {
            Ok(()) => sizes[number as usize] = Some(bytes),
            Err(error) => assert_eq!(error, Refused::Full),
        }
        if step.is_multiple_of(3) {
            let other = number ^ 5;
            let (hash, key) = key(other);
            let was = sizes[other as usize].take();
            assert_eq!(store.remove(hash, &key, 1), was.is_some());
        }
    }
    check(&store);
    for (number, bytes) in sizes.iter().enumerate() {
        let (hash, key) = key(number as u64);
        let found = store.peek(hash, &key, 1).map(|item| item.value.len());
        assert_eq!(found, *bytes, "item {number}");
    }
}
