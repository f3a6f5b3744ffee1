//! The lines against a standard map, so full that entries overflow, move and come back: in few lines, as no table has.

use super::super::layout::{FlowSlots, Layout, Side, V4Slots, V6Slots};
use super::super::{Bounds, Cuckoo, NoRoom, Place};
use crate::memory::{Baseline, Line};
use proptest::prelude::*;
use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

const LINES: u32 = 5;

fn place(key: u32) -> Place {
    Place {
        home: key % LINES,
        remainder: u64::from(key / LINES % 4_000),
        rest: u64::from(key / LINES / 4_000),
    }
}

/// An entry is at its partner line only while home has no vacant slot, and the writer's counts say how many are.
fn assert_rules_hold<L: Layout>(cuckoo: Cuckoo<'_, L, AtomicU64>, bounds: Bounds, overflowed: &[u8]) {
    let mut with_partner = vec![0; LINES as usize];
    for line in 0..LINES {
        let words = cuckoo.line(line).words();
        for entry in (0..L::SLOTS).filter_map(|slot| L::entry(&words, slot)) {
            if entry.side == Side::Partner {
                with_partner[bounds.partner(line, entry.remainder) as usize] += 1;
            }
        }
    }
    assert_eq!(overflowed, with_partner);
    for line in 0..LINES {
        let words = cuckoo.line(line).words();
        let free: Vec<_> = (0..L::SLOTS)
            .filter_map(|slot| L::is_free(&words, slot))
            .collect();
        assert!(
            free.iter()
                .all(|buried| *buried == (with_partner[line as usize] > 0)),
            "line {line}: {free:?}"
        );
    }
}

/// A key finds no room only where its lines are full, and every line that an entry of theirs could move to. In few lines that may
/// be early: a key's partner line may be its home.
fn assert_hemmed_in<L: Layout>(cuckoo: Cuckoo<'_, L, AtomicU64>, bounds: Bounds, place: &Place) {
    for line in [place.home, bounds.partner(place.home, place.remainder)] {
        let words = cuckoo.line(line).words();
        for slot in 0..L::SLOTS {
            let entry = L::entry(&words, slot).expect("a free slot of its own lines");
            let other = cuckoo.line(bounds.partner(line, entry.remainder)).words();
            let full = (0..L::SLOTS).all(|slot| L::entry(&other, slot).is_some());
            assert!(full, "line {line}, slot {slot}: its entry could have moved");
        }
    }
}

fn equals_a_btree_map<L: Layout>(changes: &[(u32, bool)], payloads: u32) {
    let lines: [Line; LINES as usize] = array::from_fn(|_| Line(array::from_fn(|_| AtomicU64::new(0))));
    let moves = AtomicU64::new(0);
    let bounds = Bounds::new(LINES, 64, L::REMAINDER_BITS.min(18));
    let cuckoo = Cuckoo::<L, _>::new(&lines, &moves, bounds);
    let mut overflowed = [0; LINES as usize];
    let mut oracle = BTreeMap::new();
    for (turn, (key, insert)) in changes.iter().enumerate() {
        let payload = 1 + turn as u32 % payloads;
        match (cuckoo.locate(&place(*key), |_| true), insert) {
            (Some(location), true) => {
                cuckoo.set_payload(&location, payload);
                assert_eq!(oracle.insert(*key, payload), Some(location.entry.payload));
            }
            (Some(location), false) => {
                cuckoo.remove(&mut overflowed, &location);
                assert_eq!(oracle.remove(key), Some(location.entry.payload));
            }
            (None, true) => match cuckoo.insert(&mut overflowed, &place(*key), payload) {
                Ok(()) => assert_eq!(oracle.insert(*key, payload), None),
                Err(NoRoom) => assert_hemmed_in(cuckoo, bounds, &place(*key)),
            },
            (None, false) => assert!(!oracle.contains_key(key)),
        }
        assert_rules_hold(cuckoo, bounds, &overflowed);
        for key in 0..300 {
            assert_eq!(
                cuckoo.find(&place(key), Some),
                oracle.get(&key).copied(),
                "key {key}"
            );
            let mut moves = cuckoo.moves();
            let glance = cuckoo.glance::<Baseline>(&place(key), &mut moves);
            if glance.certain {
                assert_eq!(
                    glance.successor.checked_sub(1),
                    oracle.get(&key).copied(),
                    "key {key} at a glance"
                );
            }
        }
    }
    assert_eq!(cuckoo.entries().count(), oracle.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn lines_that_overflow_answer_like_a_btree_map(
        changes in prop::collection::vec((0_u32..300, prop::bool::weighted(0.7)), 1..250),
    ) {
        equals_a_btree_map::<V4Slots>(&changes, 4_095);
        equals_a_btree_map::<V6Slots>(&changes, 4_095);
        equals_a_btree_map::<FlowSlots>(&changes, 1 << 30);
    }
}

/// Fills lines of this layout with random keys until one finds no room, and gives the share of slots in use by then.
fn fill<L: Layout>(lines: u32) -> f64 {
    let memory: Vec<Line> = (0..lines)
        .map(|_| Line(array::from_fn(|_| AtomicU64::new(0))))
        .collect();
    let moves = AtomicU64::new(0);
    let bounds = Bounds::new(lines, 64, L::REMAINDER_BITS);
    let cuckoo = Cuckoo::<L, _>::new(&memory, &moves, bounds);
    let mut overflowed = vec![0; lines as usize];
    let mut random = fastrand::Rng::with_seed(11);
    let keys = std::iter::repeat_with(|| bounds.place(random.u64(..), random.u64(..)));
    let taken = keys
        .take_while(|place| cuckoo.insert(&mut overflowed, place, 1).is_ok())
        .count();
    taken as f64 / (lines as usize * L::SLOTS) as f64
}

#[test]
fn three_quarters_of_the_slots_are_in_use_before_a_random_key_finds_no_room() {
    for (name, share) in [
        ("IPv4", fill::<V4Slots>(1 << 16)),
        ("IPv6", fill::<V6Slots>(1 << 18)),
        ("flow", fill::<FlowSlots>(1 << 17)),
    ] {
        assert!(share > 0.75, "{name}: {share}");
    }
}
