//! Any bytes as requests, with what is promised of heads and bodies asserted.

#![no_main]

#[path = "../../tests/common/any_request.rs"]
mod any_request;

libfuzzer_sys::fuzz_target!(|input: &[u8]| any_request::holds(input));
