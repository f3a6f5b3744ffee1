//! Runs every command that the documentation shows.
//!
//! Each block fenced as `sh` runs line by line in one shell, in its own folder, with `corelane` on the path. A line
//! that ends in ` &` runs in the background and is stopped after its block. Lines that start with `make`, `cargo`,
//! `git` or `sudo` need a checkout or privileges and are skipped; other tests cover what they run.

use crate::common::Server;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Serializes tests whose examples use the default port.
static PORT: Mutex<()> = Mutex::new(());

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
    let _port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Runs every example in the help of these verbs.
fn try_examples(verbs: &[&str]) {
    let program = env!("CARGO_BIN_EXE_corelane");
    for verb in verbs {
        let help = Command::new(program)
            .args(verb.split(' '))
            .arg("--help")
            .output()
            .unwrap();
        let text = String::from_utf8(help.stdout).unwrap();
        let examples: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("corelane "))
            .collect();
        assert!(!examples.is_empty(), "{verb} shows no example");
        for example in examples {
            let folder = tempfile::tempdir().unwrap();
            let arguments: Vec<&str> = example.split(' ').skip(1).collect();
            let output = Command::new(program)
                .args(&arguments)
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{example}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn every_example_of_servers_and_generators_works() {
    let _port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    try_examples(&[
        "bridge",
        "serve udp",
        "serve packets",
        "load packets",
        "serve http",
        "serve tcp",
    ]);
    let _server = Server::start("127.0.0.1:8080");
    try_examples(&["load udp"]);
}

#[test]
fn every_example_of_inspection_works() {
    try_examples(&["hash", "host", "explain", "plan", "key audit", "key generate"]);
}

#[test]
fn every_example_of_scaling_works() {
    try_examples(&["lab scale udp", "lab scale http", "lab scale tcp"]);
}

#[test]
fn every_example_of_the_other_experiments_works() {
    try_examples(&["lab rebalance", "lab engines", "lab classify"]);
}
