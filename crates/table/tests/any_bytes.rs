//! Lists and snapshots of arbitrary bytes: kept inputs of the fuzzer, and random ones.

use crate::any_list;
use crate::any_snapshot;

use proptest::prelude::*;
use std::fs;

/// Every input of a kept corpus.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<Vec<u8>> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!inputs.is_empty(), "{folder} is empty");
    inputs
}

#[test]
fn what_fuzzing_of_lists_found_worth_keeping_holds() {
    for text in kept("list") {
        any_list::holds(&text);
    }
}

#[test]
fn what_fuzzing_of_snapshots_found_worth_keeping_holds() {
    for changes in kept("snapshot") {
        any_snapshot::holds(&changes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_a_list_or_refused(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        any_list::holds(&text);
    }

    #[test]
    fn a_snapshot_of_addresses_that_was_changed_anywhere_is_refused_or_answers(
        mode in prop_oneof![Just(0_u8), Just(2), Just(6), Just(8), Just(10)],
        places in proptest::collection::vec((prop_oneof![0_u32..600, 0_u32..300_000], any::<u8>()), 1..4),
    ) {
        let changes = places.iter().flat_map(|(place, value)| {
            let [a, b, c, d] = place.to_le_bytes();
            [a, b, c, d, *value]
        });
        any_snapshot::holds(&std::iter::once(mode).chain(changes).collect::<Vec<u8>>());
    }
}
