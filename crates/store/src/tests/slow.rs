//! What takes many steps, while much else is stored: values that arrive slowly, segments that are emptied.

use super::invariants::check;
use super::memory;
use crate::{Attributes, Hash, Partition, Refused, Reservation, Settings, hash};

const SETTINGS: Settings = Settings {
    seed: 7,
    segment: 4 << 10,
    evicts: true,
};
const SEGMENTS: usize = 64;

fn key(number: u64) -> (Hash, [u8; 8]) {
    let key = number.to_le_bytes();
    (hash(&key, SETTINGS.seed), key)
}

fn store() -> Partition {
    Partition::new(memory(SEGMENTS * SETTINGS.segment), &SETTINGS).unwrap()
}

fn reserve(store: &mut Partition, number: u64, bytes: usize) -> Reservation {
    let (hash, key) = key(number);
    store.reserve(hash, &key, bytes, 1).unwrap()
}

/// Stores as much as the store has memory for, so many times.
fn turn_over(store: &mut Partition, times: usize) {
    for number in 0..(times * SEGMENTS * SETTINGS.segment / 100) as u64 {
        let (hash, key) = key(1_000_000 + number);
        store.set(hash, &key, &[1; 60], Attributes::default(), 1).unwrap();
    }
    check(store);
}

#[test]
fn values_that_arrive_slowly_survive_heavy_writing() {
    for sizes in [[50, 60], [3_000, 3_000], [20_000, 100]] {
        let mut store = store();
        let mut values: Vec<_> = (0..2)
            .map(|number| (number, reserve(&mut store, number as u64, sizes[number])))
            .collect();
        for _ in 0..3 {
            turn_over(&mut store, 2);
            for (number, reservation) in &mut values {
                let part = vec![*number as u8 + 1; reservation.missing().div_ceil(3)];
                assert!(store.fill(reservation, &part, 1), "{sizes:?}: it is held");
            }
        }
        for (number, mut reservation) in values {
            let part = vec![number as u8 + 1; reservation.missing()];
            assert!(store.fill(&mut reservation, &part, 1));
            store.commit(reservation, Attributes::default(), 1).unwrap();
            let (hash, key) = key(number as u64);
            let item = store.peek(hash, &key, 1).expect("it was committed");
            assert_eq!(item.value.to_vec(), vec![number as u8 + 1; sizes[number]]);
        }
        assert_eq!(store.counts().reservations_evicted, 0);
        turn_over(&mut store, 2);
    }
}

/// What is reserved beyond a quarter of the segments is evicted, in the order of the log.
#[test]
fn reservations_fill_no_more_than_their_share() {
    let mut store = store();
    let reservations: Vec<_> = (0..40).map(|number| reserve(&mut store, number, 2_500)).collect();
    turn_over(&mut store, 3);
    let evicted = store.counts().reservations_evicted;
    assert_eq!(40 - evicted, SEGMENTS as u64 / 4, "those that are kept");
    let committed = reservations.into_iter().map(|mut reservation| {
        let is_held = store.fill(&mut reservation, &[1; 2_500], 1);
        match store.commit(reservation, Attributes::default(), 1) {
            Ok(()) => 1,
            Err(error) => {
                assert_eq!((is_held, error), (false, Refused::Evicted));
                0
            }
        }
    });
    assert_eq!(committed.sum::<u64>(), SEGMENTS as u64 / 4);
    check(&store);
}

/// A client that announces a large value and sends a byte evicts no more than one that announces a small one.
#[test]
fn a_large_value_evicts_as_it_arrives() {
    let mut store = store();
    turn_over(&mut store, 2);
    let (length, part) = (SEGMENTS / 2 * SETTINGS.segment - 100, 200);
    let before = store.counts().evicted;
    let mut reservation = reserve(&mut store, 0, length);
    let two_segments = 2 * SETTINGS.segment as u64 / 96;
    assert!(store.counts().evicted - before <= two_segments);
    while reservation.missing() > 0 {
        let before = store.counts().evicted;
        let part = vec![1; part.min(reservation.missing())];
        assert!(store.fill(&mut reservation, &part, 1));
        assert!(store.counts().evicted - before <= two_segments);
        assert_eq!(
            store.reserved(&reservation).unwrap().len(),
            length - reservation.missing()
        );
        check(&store);
    }
    store.commit(reservation, Attributes::default(), 1).unwrap();
    let (hash, key) = key(0);
    assert_eq!(store.peek(hash, &key, 1).unwrap().value.to_vec(), vec![1; length]);
}

#[test]
fn a_full_store_without_eviction_refuses_a_large_value_at_once() {
    let settings = Settings {
        evicts: false,
        ..SETTINGS
    };
    let mut store = Partition::new(memory(SEGMENTS * SETTINGS.segment), &settings).unwrap();
    let refused = (1..).find(|number| {
        let (hash, key) = key(*number);
        store.set(hash, &key, &[1; 60], Attributes::default(), 1).is_err()
    });
    let (hash, text) = key(0);
    assert_eq!(store.reserve(hash, &text, 50_000, 1).err(), Some(Refused::Full));
    for number in 1..refused.unwrap() {
        let (hash, key) = key(number);
        assert!(store.remove(hash, &key, 1));
    }
    let first = store.reserve(hash, &text, 100_000, 1).expect("room for one");
    assert_eq!(store.reserve(hash, &text, 130_000, 1).err(), Some(Refused::Full));
    store.cancel(first);
    check(&store);
}

#[test]
fn a_segment_that_was_being_emptied_is_not_left_behind_by_a_flush() {
    let mut store = store();
    let mut numbers = 0..1_000_000;
    while store.emptying.is_none() {
        let (hash, key) = key(numbers.next().expect("memory is full before"));
        store.set(hash, &key, &[1; 20], Attributes::default(), 1).unwrap();
    }
    // Segments of the newest items become free, so that none has to be emptied.
    let stored = numbers.start;
    for number in stored - 300..stored {
        let (hash, key) = key(number);
        store.remove(hash, &key, 1);
    }
    assert!(store.emptying.is_some());
    store.flush();
    while store.tidy(1, 64) {}
    check(&store);
    assert_eq!((store.stale, store.emptying.is_some()), (0, false));
}
