//! Runs every command that the documentation shows.
//!
//! Each block fenced as `sh` runs line by line in one shell, in its own folder, with `corelane` on the path. A line
//! that ends in ` &` runs in the background and is stopped after its block. Lines that start with `make`, `cargo`,
//! `git` or `sudo` need a checkout or privileges and are skipped; other tests cover what they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pages for users.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let docs = fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    pages.sort();
    pages
}

/// The command lines of each `sh` block in a page.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```sh" {
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            blocks.push(block.map(str::to_owned).collect());
        }
    }
    blocks
}

fn for_a_checkout(line: &str) -> bool {
    ["make ", "cargo ", "git ", "sudo "]
        .iter()
        .any(|start| line.trim_start().starts_with(start))
}

/// A shell script for one block: it stops at the first command that fails and stops the background processes.
fn script(block: &[String]) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for line in block.iter().filter(|line| !for_a_checkout(line)) {
        script.push_str(line);
        script.push('\n');
    }
    script
}

#[test]
fn every_command_in_the_documentation_works() {
    let program = Path::new(env!("CARGO_BIN_EXE_corelane"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut tried = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for block in blocks(&text) {
            if block
                .iter()
                .all(|line| line.trim().is_empty() || for_a_checkout(line))
            {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let output = Command::new("bash")
                .args(["-c", &script(&block)])
                .current_dir(folder.path())
                .env("PATH", &path)
                .output()
                .unwrap();
            let (name, error) = (
                page.file_name().unwrap().display(),
                String::from_utf8_lossy(&output.stderr),
            );
            assert!(output.status.success(), "{name}: {}\n{error}", block.join("\n"));
            tried += 1;
        }
    }
    assert!(tried > 0, "the documentation shows no command");
}
