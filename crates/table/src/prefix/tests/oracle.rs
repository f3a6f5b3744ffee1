//! The trie against a linear search through its prefixes, with strides so small that it is deep and nodes are reused.

use super::super::entry::Entry;
use super::super::trie::{NoRoom, Nodes, Path, Trie};
use crate::value::Value;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Addresses of this test have eight bits.
const BITS: u32 = 8;

fn path(bits: u8, length: u32) -> Path {
    let kept = if length == 0 {
        0
    } else {
        bits >> (BITS - length) << (BITS - length)
    };
    Path {
        bits: u128::from(kept) << 120,
        length,
    }
}

fn holds(path: Path, address: u128) -> bool {
    path.length == 0 || (path.bits ^ address) >> (128 - path.length) == 0
}

fn longest(prefixes: &BTreeMap<(u32, u128), Value>, address: u128, shorter_than: u32) -> Entry {
    let mut holding = prefixes.iter().rev().filter(|((length, bits), _)| {
        *length < shorter_than
            && holds(
                Path {
                    bits: *bits,
                    length: *length,
                },
                address,
            )
    });
    holding.next().map_or(Entry::NONE, |((length, _), value)| {
        Entry::leaf(*length as u8, *value)
    })
}

fn equals_a_linear_search<const ROOT: u32, const NODE: u32>(changes: &[(u8, u32, bool)], most_nodes: usize) {
    let cells = |count| (0..count).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
    let (root, memory, reuses) = (cells(1 << ROOT), cells(most_nodes << NODE), AtomicU64::new(0));
    let trie = Trie::<_, _, ROOT, NODE>::new(&root, &memory, &reuses);
    let mut nodes = Nodes::default();
    let mut oracle = BTreeMap::new();
    for (turn, (bits, length, insert)) in changes.iter().enumerate() {
        let path = path(*bits, *length);
        let key = (path.length, path.bits);
        let value = Value::from_low_bits(turn as u32);
        if *insert {
            let leaf = Entry::leaf(path.length as u8, value);
            match trie.insert(&mut nodes, path, leaf, !oracle.contains_key(&key)) {
                Ok(()) => drop(oracle.insert(key, value)),
                Err(NoRoom) => assert!(nodes.used() + 7 > most_nodes, "no room while nodes are unused"),
            }
        } else if oracle.remove(&key).is_some() {
            trie.remove(&mut nodes, path, longest(&oracle, path.bits, path.length));
        }
        for address in 0..=u8::MAX {
            let address = u128::from(address) << 120;
            assert_eq!(
                trie.find(address),
                longest(&oracle, address, BITS + 1),
                "after {turn}: {address:x}"
            );
        }
    }
    for (length, bits) in oracle.keys().copied().collect::<Vec<_>>() {
        oracle.remove(&(length, bits));
        trie.remove(&mut nodes, Path { bits, length }, longest(&oracle, bits, length));
    }
    assert!(
        root.iter()
            .all(|cell| cell.load(std::sync::atomic::Ordering::Relaxed) == 0),
        "nodes are left"
    );
}

proptest! {
    #[test]
    fn the_longest_prefix_is_found_after_any_changes(
        changes in prop::collection::vec((any::<u8>(), 0_u32..=BITS, prop::bool::weighted(0.65)), 1..80),
        most_nodes in 3_usize..60,
    ) {
        equals_a_linear_search::<2, 2>(&changes, most_nodes);
        equals_a_linear_search::<5, 3>(&changes, most_nodes);
        equals_a_linear_search::<1, 1>(&changes, most_nodes.max(7));
    }
}
