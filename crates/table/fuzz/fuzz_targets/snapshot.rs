//! A snapshot, changed anywhere by any bytes, its checksums mended or not: refused by name, or a map that answers.
//! From `crates/table`: `cargo +nightly fuzz run snapshot -- -max_total_time=3600`.

#![no_main]

#[path = "../../tests/common/any_snapshot.rs"]
mod any_snapshot;

libfuzzer_sys::fuzz_target!(|changes: &[u8]| any_snapshot::holds(changes));
