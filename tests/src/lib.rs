//! Helpers of tests: the repository's folder, its source files, and the shipped part of them; tests beside other work;
//! test beds; the schemas of files.

#![forbid(unsafe_code)]

mod bed;
mod busy;
mod guest;
pub mod memcached;
mod schema;

pub use bed::{namespaces, namespaces_plan};
pub use busy::{PATIENCE, measured, undisturbed, until};
pub use guest::{guest_parts, guest_with_tunnels};
pub use schema::assert_same_fields;

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

/// Every Rust file of the crates, the examples and the tests of the workspace: its path from the root, and its text.
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

/// The sources of the crates as compiled into the binary: each file's path from the root, and its lines without test
/// code, comments and blank lines.
#[must_use]
pub fn shipped_files() -> Vec<(String, Vec<String>)> {
    let files: Vec<(String, String)> = source_files()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.split('/').nth(2) == Some("src"))
        .collect();
    let for_tests: Vec<String> = files
        .iter()
        .flat_map(|(path, text)| modules_for_tests(path, text))
        .collect();
    let is_for_tests = |path: &str| {
        let path = path.trim_end_matches(".rs");
        for_tests.iter().any(|module| {
            let inside = path.strip_prefix(module.as_str());
            inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    files
        .into_iter()
        .filter(|(path, _)| !is_for_tests(path))
        .map(|(path, text)| (path, shipped_lines(&text)))
        .collect()
}

/// The attributes of items that are not in a shipped build.
const FOR_TESTS: [&str; 2] = ["#[cfg(test)]", "#[cfg(feature = \"simulated\")]"];

fn is_for_tests(line: &str) -> bool {
    FOR_TESTS.contains(&line.trim())
}

/// The paths, without `.rs`, of the modules that a file declares for tests only.
fn modules_for_tests(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    let base = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let mut lines = text.lines().map(str::trim);
    let mut modules = Vec::new();
    while let Some(line) = lines.next() {
        if is_for_tests(line)
            && let Some(item) = lines.find(|line| !line.starts_with("#["))
            && let Some((_, name)) = item.trim_end_matches(';').split_once("mod ")
        {
            modules.push(format!("{base}/{name}"));
        }
    }
    modules
}

/// The lines of formatted Rust that are code in a shipped build.
fn shipped_lines(text: &str) -> Vec<String> {
    let mut shipped = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if is_for_tests(line) {
            let item = lines
                .find(|line| !line.trim().starts_with("#["))
                .unwrap_or_default();
            let ends_here = [";", ",", "{}"].iter().any(|end| item.ends_with(end));
            let indent = item.len() - item.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            if !ends_here {
                lines.by_ref().find(|line| line.starts_with(&end));
            }
        } else if !line.trim().is_empty() && !line.trim().starts_with("//") {
            shipped.push(line.to_owned());
        }
    }
    shipped
}
