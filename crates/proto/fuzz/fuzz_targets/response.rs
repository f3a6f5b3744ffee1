//! Arbitrary bytes as responses; asserts the documented properties.

#![no_main]

#[path = "../../tests/common/answers.rs"]
mod answers;
#[path = "../../tests/common/any_response.rs"]
mod any_response;

libfuzzer_sys::fuzz_target!(|input: &[u8]| any_response::holds(input));
