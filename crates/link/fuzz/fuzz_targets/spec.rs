//! Any text as a link's specification, with what is promised of that asserted.

#![no_main]

#[path = "../../tests/common/any_spec.rs"]
mod any_spec;

libfuzzer_sys::fuzz_target!(|text: &str| any_spec::holds(text));
