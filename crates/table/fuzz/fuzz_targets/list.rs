//! Arbitrary bytes as a list in every format; asserts the documented properties. For an hour: `tests/fuzz.sh 60 list`.

#![no_main]

#[path = "../../tests/common/any_list.rs"]
mod any_list;

libfuzzer_sys::fuzz_target!(|text: &[u8]| any_list::holds(text));
