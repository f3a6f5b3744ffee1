//! Documents and timelines that anyone may have written: kept inputs of the fuzzer, and what they become with values
//! replaced.

use crate::any_document;

use std::fmt::Write as _;
use std::{fs, panic};

/// How often each kept input is changed.
const CHANGES: u64 = 24;

/// The kept corpus, in the order of its names.
fn kept() -> Vec<(String, String)> {
    let folder = format!("{}/fuzz/corpus/document", env!("CARGO_MANIFEST_DIR"));
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<(String, String)> = paths
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{folder} is empty");
    inputs
}

#[test]
fn no_document_and_no_timeline_that_was_changed_anywhere_ends_the_program() {
    let mut ended = String::new();
    for (path, whole) in kept() {
        any_document::holds(&whole);
        let mut text = whole.clone();
        for seed in 0..CHANGES {
            // Up to four changes at once, then from the start again.
            if seed % 4 == 0 {
                text.clone_from(&whole);
            }
            text = any_document::changed(&text, seed);
            if panic::catch_unwind(|| any_document::holds(&text)).is_err() {
                writeln!(ended, "{path}, after change {seed}").unwrap();
            }
        }
    }
    assert!(ended.is_empty(), "the panics are above:\n{ended}");
}
