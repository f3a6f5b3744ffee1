//! A snapshot, changed anywhere by any bytes, its checksums mended or not: refused by name, or a map that answers.
//! An hour of it: `tests/fuzz.sh 60 snapshot`.

#![no_main]

#[path = "../../tests/common/any_snapshot.rs"]
mod any_snapshot;

libfuzzer_sys::fuzz_target!(|changes: &[u8]| any_snapshot::holds(changes));
