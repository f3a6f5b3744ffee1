//! Arbitrary bytes as answers of a memcached server.

#![no_main]

#[path = "../../tests/common/any_answer.rs"]
mod any_answer;

libfuzzer_sys::fuzz_target!(|input: &[u8]| any_answer::holds(input));
