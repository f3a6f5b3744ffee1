//! Arbitrary bytes as a frame: dissects, hashes and edits it, and asserts the documented properties. For an hour:
//! `tests/fuzz.sh 60 dissect`.

#![no_main]

#[path = "../../tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| invariants::hold_for(frame));
