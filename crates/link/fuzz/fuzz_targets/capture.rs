//! Any bytes as a capture file, with what is promised of that asserted.

#![no_main]

#[path = "../../tests/common/any_capture.rs"]
mod any_capture;

use std::path::PathBuf;
use std::sync::LazyLock;

/// In memory where there is such a folder, as a file is written for each input.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let folder = parent.join(format!("corelane-fuzz-capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_capture::holds(bytes, &FOLDER));
