//! What an item costs, and that an index which grows loses none.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Hash, Partition, Settings, hash};

const SETTINGS: Settings = Settings {
    seed: 5,
    segment: 128 << 10,
    evicts: true,
};

fn key(number: u64) -> (Hash, [u8; 32]) {
    let mut key = *b"a key of thirty-two bytes, -----";
    key[24..].copy_from_slice(&number.to_le_bytes());
    (hash(&key, SETTINGS.seed), key)
}

fn set(store: &mut Partition, number: u64) {
    let (hash, key) = key(number);
    let stored = store.set(hash, &key, &[number as u8; 100], Attributes::default(), 1);
    stored.expect("others are evicted");
}

/// Everything counted: headers, padding, index, reserve and waste, from 128 segments on. memcached 1.6.45 needs 67 to 70 bytes for such items.
#[test]
fn an_item_costs_at_most_50_bytes_beyond_key_and_value() {
    let costs = [16, 23, 32, 45].map(|mebibytes| {
        let bytes = mebibytes << 20;
        let mut store = Partition::new(memory(bytes), &SETTINGS).unwrap();
        let items = (1..).find(|number| {
            set(&mut store, *number);
            store.counts().evicted > 0
        });
        bytes as f64 / (items.expect("something is evicted") - 1) as f64 - 132.
    });
    assert!(costs.iter().all(|cost| *cost <= 50.), "{costs:?}");
}

#[test]
fn what_fits_is_found_while_the_index_grows() {
    let mut store = Partition::new(memory(32 << 20), &SETTINGS).unwrap();
    let items = 150_000;
    (0..items).for_each(|number| set(&mut store, number));
    check(&store);
    for number in 0..items {
        let (hash, key) = key(number);
        let item = store.peek(hash, &key, 1);
        assert_eq!(
            item.and_then(|item| item.value.whole()),
            Some(&[number as u8; 100][..])
        );
    }
    let mut cursor = Some(0);
    let mut scanned = 0;
    while let Some(bucket) = cursor {
        cursor = store.scan(bucket, 1, |_| scanned += 1);
    }
    assert_eq!(scanned, items);
    assert_eq!(
        store.counts().buckets,
        (2 * items).div_ceil(9),
        "two buckets per nine items"
    );
}

/// Overwriting with values of other sizes leaves holes everywhere; segments with many of them are emptied first.
#[test]
fn dead_space_is_reclaimed_before_items_are_evicted() {
    let mut store = Partition::new(memory(8 << 20), &SETTINGS).unwrap();
    let items = 20_000;
    for round in 0..20_u64 {
        for number in 0..items {
            let (hash, key) = key(number);
            let value = vec![1; 60 + (round % 7) as usize * 8];
            store.set(hash, &key, &value, Attributes::default(), 1).unwrap();
        }
    }
    check(&store);
    assert_eq!(store.counts().evicted, 0, "{:?}", store.counts());
    assert_eq!(store.counts().items, items);
}

#[test]
fn expired_and_flushed_items_are_reclaimed_between_requests() {
    let mut store = Partition::new(memory(8 << 20), &SETTINGS).unwrap();
    for number in 0..10_000 {
        let (hash, key) = key(number);
        let attributes = Attributes {
            expiry: if number % 2 == 0 { 100 } else { 200 },
            ..Attributes::default()
        };
        store.set(hash, &key, b"value", attributes, 1).unwrap();
    }
    assert!(
        !store.tidy(99, 64),
        "segments without expired items are passed over"
    );
    assert_eq!(store.counts().expired, 0);
    while store.tidy(100, 100) {}
    assert_eq!((store.counts().expired, store.counts().items), (5_000, 5_000));
    store.flush();
    assert_eq!(store.counts().items, 5_000);
    assert!(store.peek(key(1).0, &key(1).1, 100).is_none(), "flushed");
    while store.tidy(100, 100) {}
    let counts = store.counts();
    assert_eq!((counts.flushed, counts.items, counts.item_bytes), (5_000, 0, 0));
    assert_eq!(
        counts.free_segments + counts.index_segments,
        counts.segments,
        "all segments are free again"
    );
    check(&store);
}

/// Calls of `tidy` with a budget of 64 until nothing is left to do in a second.
fn tidy(store: &mut Partition, now: u32) -> u64 {
    1 + (0..).take_while(|_| store.tidy(now, 64)).count() as u64
}

/// Times to live of any length, so that in each segment something expires in each second.
#[test]
fn segments_rest_after_they_were_looked_at() {
    let mut store = Partition::new(memory(16 << 20), &SETTINGS).unwrap();
    let items = 60_000;
    let expiry = |number: u64| 2 + (number.wrapping_mul(0x9e37_79b9) >> 5) as u32 % 1_000;
    for number in 0..items {
        let (hash, key) = key(number);
        let attributes = Attributes {
            expiry: expiry(number),
            ..Attributes::default()
        };
        store.set(hash, &key, &[1; 100], attributes, 1).unwrap();
    }
    let of_a_pass = items / 64;
    let in_a_minute: u64 = (2..62).map(|now| tidy(&mut store, now)).sum();
    assert!(
        in_a_minute < 2 * of_a_pass,
        "{in_a_minute} calls, {of_a_pass} of a pass"
    );
    for now in 62..1_068 {
        tidy(&mut store, now);
        let late = (0..items)
            .filter(|number| expiry(*number) <= now.saturating_sub(65))
            .count();
        let expired = store.counts().expired;
        assert!(expired >= late as u64, "{expired} of {late} items at {now}");
    }
    assert_eq!(store.counts().items, 0);
    check(&store);
}

/// The first bucket is at address 0 of the memory, which as a link means none.
#[test]
fn the_first_bucket_may_overflow() {
    let mut store = Partition::new(memory(8 << 20), &SETTINGS).unwrap();
    let first = (0..).filter(|number| key(*number).0.value().is_multiple_of(128 << 10));
    let numbers: Vec<u64> = first.take(8).collect();
    for number in &numbers {
        set(&mut store, *number);
        check(&store);
    }
    for number in &numbers {
        let (hash, key) = key(*number);
        assert!(store.remove(hash, &key, 1));
        check(&store);
    }
}
