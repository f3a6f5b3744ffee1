//! Any bytes as a frame: dissected, hashed and edited, with what is promised of that asserted. From `crates/packet`:
//! `cargo +nightly fuzz run dissect -- -max_total_time=3600`.

#![no_main]

#[path = "../../tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| invariants::hold_for(frame));
