//! What the proofs under `tests/` share: where the repository is, and its source files.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("the tests crate is a folder of the repository")
        .to_owned()
}

/// Every Rust file of the rooms, the examples and the cross-room proofs: its path from the root, and its text.
///
/// # Panics
/// When a source file cannot be read.
#[must_use]
pub fn source_files() -> Vec<(String, String)> {
    let root = repository();
    let mut folders = vec![
        root.join("crates"),
        root.join("tests"),
        root.join("examples"),
        root.join("bench"),
    ];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a readable source file");
                let name = path
                    .strip_prefix(&root)
                    .expect("inside the repository")
                    .display()
                    .to_string();
                files.push((name, text));
            }
        }
    }
    files.sort();
    files
}
