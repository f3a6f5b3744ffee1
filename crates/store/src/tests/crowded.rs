//! Keys that were chosen for one chain of the index.

use super::invariants::check;
use super::memory;
use crate::bucket::LONGEST_CHAIN;
use crate::{Attributes, Hash, Partition, Refused, Settings, hash};

const SETTINGS: Settings = Settings {
    seed: 11,
    segment: 4 << 10,
    evicts: true,
};
/// Items of the longest chain.
const MOST: usize = LONGEST_CHAIN * 7;

/// Keys of one bucket, however much the index grows here.
fn keys(count: usize) -> Vec<(Hash, [u8; 8])> {
    let keys = (0_u64..).map(|number| (hash(&number.to_le_bytes(), SETTINGS.seed), number.to_le_bytes()));
    keys.filter(|(hash, _)| hash.value().trailing_zeros() >= 12)
        .take(count)
        .collect()
}

fn store(evicts: bool) -> Partition {
    let settings = Settings { evicts, ..SETTINGS };
    Partition::new(memory(1 << 20), &settings).unwrap()
}

fn set(store: &mut Partition, (hash, key): &(Hash, [u8; 8]), expiry: u32, now: u32) -> Result<(), Refused> {
    let attributes = Attributes {
        expiry,
        ..Attributes::default()
    };
    let stored = store.set(*hash, key, b"value", attributes, now);
    check(store);
    stored
}

#[test]
fn the_least_accessed_item_of_a_crowded_chain_is_evicted() {
    let mut store = store(true);
    let keys = keys(2 * MOST);
    for key in &keys[..MOST] {
        set(&mut store, key, 0, 1).unwrap();
    }
    assert_eq!(store.counts().evicted, 0);
    for (hash, key) in &keys[..MOST / 2] {
        assert!(store.read(*hash, key, 1).is_some());
    }
    for key in &keys[MOST..] {
        set(&mut store, key, 0, 1).unwrap();
        assert!(store.peek(key.0, &key.1, 1).is_some(), "the newest is there");
    }
    let counts = store.counts();
    assert_eq!((counts.items, counts.evicted), (MOST as u64, MOST as u64));
    for (hash, key) in &keys[..MOST / 2] {
        assert!(store.peek(*hash, key, 1).is_some(), "it was read");
    }
}

#[test]
fn a_crowded_chain_refuses_new_keys_where_nothing_is_evicted() {
    let mut store = store(false);
    let keys = keys(MOST + 1);
    for key in &keys[..MOST] {
        let expiry = if *key == keys[5] { 10 } else { 0 };
        set(&mut store, key, expiry, 1).unwrap();
    }
    assert_eq!(set(&mut store, &keys[MOST], 0, 9), Err(Refused::Full));
    assert_eq!(set(&mut store, &keys[0], 20, 9), Ok(()), "a replacement");
    assert_eq!(
        set(&mut store, &keys[MOST], 0, 10),
        Ok(()),
        "in place of an expired one"
    );
    assert_eq!(set(&mut store, &keys[5], 0, 10), Err(Refused::Full));
    let counts = store.counts();
    assert_eq!(
        (counts.items, counts.evicted, counts.expired),
        (MOST as u64, 0, 1)
    );
}
