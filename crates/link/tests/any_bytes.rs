//! Specifications and capture files of arbitrary bytes: kept inputs of the fuzzer, and random ones.

use crate::any_capture;
use crate::any_spec;

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
fn what_fuzzing_of_specifications_found_worth_keeping_holds() {
    for text in kept("spec") {
        any_spec::holds(&String::from_utf8_lossy(&text));
    }
}

#[test]
fn what_fuzzing_of_captures_found_worth_keeping_holds() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in kept("capture") {
        any_capture::holds(&bytes, folder.path());
    }
}

proptest! {
    #[test]
    fn any_text_is_a_specification_or_refused(
        kind in "(xdp|packet|tap|pcap|ring)", name in "[a-z=./]{0,5}",
        options in proptest::collection::vec(
            ("(queues|fanout|in|out|frames|stride|headroom|mode|capture|drop|delay|seed|[a-z]{1,3})",
             "(=[0-9]{1,4}|=[a-z=]{0,6}|=0?\\.[0-9]{1,3}|=[0-9]{1,3}(us|ms)|)"), 0..4),
    ) {
        let options: String = options.iter().map(|(option, value)| format!(",{option}{value}")).collect();
        any_spec::holds(&format!("{kind}:{name}{options}"));
    }
}

proptest! {
    // Each case writes and reads every kept file.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_capture_changed_anywhere_is_read_up_to_there(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<proptest::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for mut bytes in kept("capture") {
            for (place, value) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            any_capture::holds(&bytes, folder.path());
        }
    }
}
