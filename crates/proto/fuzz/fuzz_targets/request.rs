//! Arbitrary bytes as requests; asserts the documented properties of heads and bodies.

#![no_main]

#[path = "../../tests/common/any_request.rs"]
mod any_request;

libfuzzer_sys::fuzz_target!(|input: &[u8]| any_request::holds(input));
