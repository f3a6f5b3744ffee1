//! A snapshot with arbitrary changes, with or without corrected checksums: rejected with a message, or a map that can
//! be queried. For an hour: `tests/fuzz.sh 60 snapshot`.

#![no_main]

#[path = "../../tests/common/any_snapshot.rs"]
mod any_snapshot;

libfuzzer_sys::fuzz_target!(|changes: &[u8]| any_snapshot::holds(changes));
