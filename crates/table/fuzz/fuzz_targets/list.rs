//! Any bytes as a list in every format, with what is promised of that asserted. From `crates/table`:
//! `cargo +nightly fuzz run list -- -max_total_time=3600`.

#![no_main]

#[path = "../../tests/common/any_list.rs"]
mod any_list;

libfuzzer_sys::fuzz_target!(|text: &[u8]| any_list::holds(text));
