//! Arbitrary bytes as a capture file; asserts the documented properties.

#![no_main]

#[path = "../../tests/common/any_capture.rs"]
mod any_capture;

use std::path::PathBuf;
use std::sync::LazyLock;

/// Folder of the file that is written for each input. libFuzzer never exits in order, so its caller removes the folder.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("corelane-fuzz-capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_capture::holds(bytes, &FOLDER));
