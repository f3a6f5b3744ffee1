//! Arbitrary text as a link's specification; asserts the documented properties.

#![no_main]

#[path = "../../tests/common/any_spec.rs"]
mod any_spec;

libfuzzer_sys::fuzz_target!(|text: &str| any_spec::holds(text));
