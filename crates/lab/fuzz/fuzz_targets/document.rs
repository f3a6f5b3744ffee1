//! Arbitrary text as a saved document or a timeline: read, rendered in every form, compared, merged. Every other input is a
//! document with a value replaced, because arbitrary bytes are seldom JSON. For an hour: `tests/fuzz.sh 60 document`.

#![no_main]

#[path = "../../tests/common/any_document.rs"]
mod any_document;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|text: &str| any_document::holds(text));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let text = str::from_utf8(&data[..size]).ok();
    let changed = text.map(|text| any_document::changed(text, u64::from(seed)));
    match changed.filter(|changed| seed % 2 == 0 && changed.len() <= max_size) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(changed.as_bytes());
            changed.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
