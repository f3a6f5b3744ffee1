//! A store that uses less of its memory for a time.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Partition, Settings, hash};

const SETTINGS: Settings = Settings {
    seed: 13,
    segment: 4 << 10,
    evicts: true,
};
const SEGMENTS: usize = 256;

fn store(evicts: bool) -> Partition {
    Partition::new(
        memory(SEGMENTS * SETTINGS.segment),
        &Settings { evicts, ..SETTINGS },
    )
    .unwrap()
}

/// Stores so many items after the first of them; those that were refused.
fn fill(store: &mut Partition, first: u64, items: u64) -> usize {
    let refused = (first..first + items).filter(|number| {
        let key = number.to_le_bytes();
        let hash = hash(&key, SETTINGS.seed);
        store.set(hash, &key, &[1; 60], Attributes::default(), 1).is_err()
    });
    refused.count()
}

fn used(store: &Partition) -> u64 {
    let counts = store.counts();
    counts.segments - counts.free_segments - counts.withheld_segments
}

#[test]
fn less_memory_is_used_from_when_the_items_in_it_are_evicted() {
    let mut store = store(true);
    fill(&mut store, 0, 20_000);
    assert!(used(&store) > 250);
    store.limit(100 * SETTINGS.segment);
    let mut calls = 0;
    while store.tidy(1, 16) {
        check(&store);
        calls += 1;
    }
    assert!(calls > 100, "{calls} calls of 16 items each");
    assert_eq!(store.counts().withheld_segments, 156);
    for _ in 0..10 {
        fill(&mut store, 0, 5_000);
        assert!((90..=100).contains(&used(&store)), "{:?}", store.counts());
    }
    check(&store);
    store.limit(usize::MAX);
    fill(&mut store, 0, 20_000);
    assert!(used(&store) > 250, "{:?}", store.counts());
    store.limit(0);
    while store.tidy(1, 1_000) {}
    let counts = store.counts();
    assert_eq!(
        counts.withheld_segments,
        counts.segments - 2 * counts.index_segments
    );
    assert_eq!(fill(&mut store, 0, 2_000), 0);
    check(&store);
}

#[test]
fn evicted_items_are_kept_until_they_are_taken() {
    let mut store = store(true);
    fill(&mut store, 0, 20_000);
    assert!(store.take_evictions().is_empty());
    store.keep_evictions(true);
    let before = store.counts().evicted;
    fill(&mut store, 20_000, 1_000);
    let evicted = store.take_evictions();
    assert_eq!(evicted.len() as u64, store.counts().evicted - before);
    for item in &evicted {
        let hash = hash(&item.key, SETTINGS.seed);
        assert!(store.peek(hash, &item.key, 1).is_none() && item.length == 60);
    }
    fill(&mut store, 30_000, 10_000);
    let (kept, counts) = (store.take_evictions(), store.counts());
    let all = (kept.len() + evicted.len()) as u64 + counts.evictions_not_kept;
    assert!(counts.evictions_not_kept > 0 && all == counts.evicted - before);
    store.keep_evictions(false);
    fill(&mut store, 40_000, 1_000);
    assert!(store.take_evictions().is_empty());
}

#[test]
fn memory_is_withheld_as_it_becomes_free_where_nothing_is_evicted() {
    let mut store = store(false);
    let refused = fill(&mut store, 0, 20_000);
    store.limit(100 * SETTINGS.segment);
    store.tidy(1, 1_000);
    let items = 20_000 - refused as u64;
    assert_eq!(store.counts().items, items);
    assert!(store.counts().withheld_segments < 5);
    store.flush();
    for now in 2..4 {
        while store.tidy(now, 1_000) {}
    }
    assert_eq!(store.counts().withheld_segments, 156);
    let refused = fill(&mut store, 0, 20_000) as u64;
    assert!((90..=100).contains(&used(&store)) && 20_000 - refused < items / 2);
    check(&store);
}
