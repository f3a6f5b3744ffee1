//! Any bytes as a frame: dissected, hashed and edited, with what is promised of that asserted. An hour of it:
//! `tests/fuzz.sh 60 dissect`.

#![no_main]

#[path = "../../tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| invariants::hold_for(frame));
