//! What holds after each operation.

use crate::hash::hash;
use crate::item::{Head, Marks, key_at};
use crate::partition::Partition;
use crate::segments::{NONE, Queue, Use};
use std::collections::BTreeSet;

/// Panics unless index, segments and counts agree.
pub fn check(store: &Partition) {
    let indexed = check_index(store);
    let (mut found, mut used) = (BTreeSet::new(), [0; 6]);
    for number in 0..store.segments.count() as u32 {
        let segment = store.segments[number];
        let kind = match segment.used_for {
            Use::Free => 0,
            Use::Index => 1,
            Use::Open => 2,
            Use::Queued(_) => 3,
            Use::Part => 4,
            Use::Emptying => 5,
        };
        used[kind] += 1;
        if matches!(segment.used_for, Use::Open | Use::Queued(_) | Use::Emptying) {
            found.extend(check_segment(store, number));
        }
    }
    assert_eq!(found, indexed, "the live items are those of the index");
    let queued: usize = [Queue::Small, Queue::Main, Queue::Sparse]
        .map(|queue| store.segments.queued(queue))
        .iter()
        .sum();
    assert_eq!(used[0], store.segments.free());
    assert_eq!(used[1], store.index.segments());
    assert_eq!(used[2], store.open.iter().filter(|open| **open != NONE).count());
    assert_eq!(used[3], queued);
    assert_eq!(used[5], usize::from(store.emptying.is_some()));
    let stale = (0..store.segments.count() as u32).filter(|number| {
        matches!(store.segments[*number].used_for, Use::Queued(_) | Use::Emptying)
            && store.segments[*number].epoch != store.epoch
    });
    assert_eq!(stale.count(), store.stale, "stale segments");
    let held = (0..store.segments.count() as u32).filter(|number| store.segments[*number].reservations > 0);
    let held: usize = held.map(|number| store.segments.chained(number)).sum();
    assert_eq!(held, store.segments.reserved(), "segments with reservations");
}

/// The locations in the index.
fn check_index(store: &Partition) -> BTreeSet<usize> {
    let mut locations = BTreeSet::new();
    let (mut bytes, mut classes) = (0, vec![0; store.items_by_class().len()]);
    for bucket in 0..store.index.buckets() {
        for (_, location) in store.index.slots(&store.memory, bucket) {
            let hash = hash(key_at(&store.memory, location), store.seed);
            let by_key = store.index.find(&store.memory, hash.value(), |other| {
                key_at(&store.memory, other) == key_at(&store.memory, location)
            });
            assert_eq!(
                by_key.map(|found| found.1),
                Some(location),
                "the key is found, and once"
            );
            assert!(
                locations.insert(location),
                "location {location} is in the index twice"
            );
            let head = Head::read(&store.memory, location);
            bytes += head.space() as u64;
            if let Some(items) = classes.get_mut(head.value as usize / 16) {
                *items += 1;
            }
        }
    }
    assert_eq!(locations.len() as u64, store.index.items());
    assert_eq!(bytes, store.counts.item_bytes);
    assert_eq!(
        classes,
        store.items_by_class(),
        "items by the length of their value / 16"
    );
    locations
}

/// The locations of the live items of a segment.
fn check_segment(store: &Partition, number: u32) -> Vec<usize> {
    let segment = store.segments[number];
    let (mut position, mut live, mut pending, mut locations) = (0, 0, 0, Vec::new());
    let is_looked_at = store.sweep.segment == number || segment.used_for == Use::Emptying;
    while position < segment.used as usize {
        let location = store.segments.start(number) + position;
        let head = Head::read(&store.memory, location);
        let space = head.space().min(store.segments.bytes());
        position += head.space();
        if !head.attributes.marks.has(Marks::DEAD) {
            live += space;
            pending += u32::from(head.attributes.marks.has(Marks::PENDING));
        }
        if head.is_indexed() {
            locations.push(location);
            let expiry = head.attributes.expiry;
            assert!(
                expiry == 0 || segment.earliest <= expiry || is_looked_at,
                "segment {number} knows when its first item expires"
            );
        }
    }
    assert_eq!(live, segment.live as usize, "live bytes of segment {number}");
    assert!(
        pending == segment.reservations || segment.used_for == Use::Emptying,
        "reservations of segment {number}"
    );
    assert!(
        live > 0 || matches!(segment.used_for, Use::Open | Use::Emptying),
        "a segment without live items is free"
    );
    locations
}
