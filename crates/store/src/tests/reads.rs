//! Threads that read a partition while its owner changes it.

use super::memory;
use crate::{Attributes, Hash, NotRead, Partition, Settings, hash};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const SETTINGS: Settings = Settings {
    seed: 7,
    segment: 4 << 10,
    evicts: true,
};
const KEYS: u64 = 400;
const READERS: usize = 2;
/// Items that each reader copies before the owner stops.
const COPIES: u64 = 20_000;

fn key(number: u64) -> (Hash, Vec<u8>) {
    let text = format!("{number:0width$}", width = 3 + number as usize % 40).into_bytes();
    (hash(&text, SETTINGS.seed), text)
}

/// The value of a version of a key: each word says both.
fn value(number: u64, version: u64) -> Vec<u8> {
    let word = number << 40 | version;
    word.to_le_bytes().repeat((number + version / 5) as usize % 60)
}

fn set(store: &mut Partition, number: u64, version: u64) {
    let (hash, text) = key(number);
    let attributes = Attributes {
        cas: version,
        ..Attributes::default()
    };
    let stored = store.set(hash, &text, &value(number, version), attributes, 1);
    stored.expect("others are evicted");
    for _ in 0..3 {
        assert!(store.read(hash, &text, 1).is_some());
    }
}

#[test]
fn an_item_is_read_from_outside_once_its_accesses_are_no_longer_counted() {
    let mut store = Partition::new(memory(64 << 10), &SETTINGS).unwrap();
    let (reader, mut buffer) = (store.reader(), Vec::new());
    let (hash, text) = key(5);
    let mut read = |is_settled: bool, now| {
        let copied = reader.read((hash, &text), now, |_| is_settled, &mut buffer);
        copied.map(|copied| copied.value.to_vec())
    };
    assert_eq!(read(true, 1), Err(NotRead::Absent));
    let attributes = Attributes {
        expiry: 10,
        ..Attributes::default()
    };
    store.set(hash, &text, b"value", attributes, 1).unwrap();
    for _ in 0..3 {
        assert_eq!(read(true, 1), Err(NotRead::Unsettled));
        store.read(hash, &text, 1).unwrap();
    }
    assert_eq!(read(true, 9), Ok(b"value".to_vec()));
    assert_eq!(read(false, 9), Err(NotRead::Unsettled));
    assert_eq!(read(true, 10), Err(NotRead::Absent));
    store.announce_flush(Some(8));
    while store.tidy(7, 100) {}
    assert_eq!(read(true, 7), Ok(b"value".to_vec()));
    assert_eq!(read(true, 8), Err(NotRead::Absent));
    store.flush();
    assert_eq!(read(true, 7), Err(NotRead::Absent));
    while store.tidy(8, 100) {}
    store
        .set(hash, &text, &[1; 5_000], Attributes::default(), 8)
        .unwrap();
    for _ in 0..3 {
        store.read(hash, &text, 8).unwrap();
    }
    assert_eq!(read(true, 8), Err(NotRead::Parts));
}

/// What readers know: the version of each key that was stored last, and the last version before the last flush.
struct Known {
    versions: Vec<AtomicU64>,
    flushed: AtomicU64,
}

/// Reads until it has copied enough; what it copies is whole, of the key, and at least as new as what was there before.
fn copy(store: &crate::Reader, known: &Known, seed: u64) {
    let (mut random, mut buffer, mut copies) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
    while copies < COPIES {
        let number = random.u64(..KEYS).min(random.u64(..KEYS));
        let (hash, text) = key(number);
        let version = known.versions[number as usize].load(Ordering::Acquire);
        let flushed = known.flushed.load(Ordering::Acquire);
        let Ok(copied) = store.read((hash, &text), 1, |_| true, &mut buffer) else {
            continue;
        };
        copies += 1;
        let found = copied.attributes.cas;
        assert!(
            found >= version && found > flushed,
            "{found} of key {number}: {version}, {flushed}"
        );
        assert_eq!(
            copied.value,
            value(number, found),
            "key {number}, version {found}"
        );
    }
}

/// Sets, removes and flushes items, and changes their attributes, in memory for half of them, so that many are evicted and moved.
#[test]
fn what_is_read_while_the_owner_changes_it_is_whole_and_not_older_than_what_was_there_before() {
    let mut store = Partition::new(memory(64 << 10), &SETTINGS).unwrap();
    let known = Known {
        versions: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        flushed: AtomicU64::new(0),
    };
    let mut random = fastrand::Rng::with_seed(1);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS as u64)
            .map(|seed| {
                let (reader, known) = (store.reader(), &known);
                scope.spawn(move || copy(&reader, known, seed))
            })
            .collect();
        let mut version = 0;
        while readers.iter().any(|reader| !reader.is_finished()) {
            version += 1;
            let number = random.u64(..KEYS).min(random.u64(..KEYS));
            let (hash, text) = key(number);
            match random.u32(..2_000) {
                0 => {
                    store.flush();
                    known.flushed.store(version, Ordering::Release);
                }
                1..50 => {
                    store.remove(hash, &text, 1);
                }
                50..100 => {
                    store.tidy(1, 100);
                }
                100..300 => {
                    if let Some(mut item) = store.change(hash, &text, 1) {
                        let cas = item.item().attributes.cas;
                        let attributes = Attributes {
                            flags: 1,
                            cas,
                            ..Attributes::default()
                        };
                        item.set_attributes(attributes);
                    }
                }
                _ => set(&mut store, number, version),
            }
            known.versions[number as usize].fetch_max(
                store.peek(hash, &text, 1).map_or(0, |item| item.attributes.cas),
                Ordering::Release,
            );
        }
    });
    assert!(store.counts().evicted > 0 && store.counts().copied_bytes > 0);
}
