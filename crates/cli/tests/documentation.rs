//! Runs every command that the documentation shows.
//!
//! Each block fenced as `sh` runs line by line in one shell, in its own folder, with `corelane` on the path. A server
//! that the block starts in the background runs without its `--duration`, which the lines after it may exceed on a busy
//! machine; it is waited for, and stopped when the block waits for it or ends. Lines that start with `make`, `cargo`,
//! `git` or `sudo` need a checkout or privileges and are skipped; other tests cover what they run. A command in a block
//! that is not run has to be in [`SHOWN`], with the reason.

use crate::common::{LAB, alone_on_loopback};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that the documentation shows without running them: how they begin, and why.
const SHOWN: &[(&str, &str)] = &[
    (
        "ssh router ethtool -x eth0 | corelane hash",
        "asks a machine elsewhere",
    ),
    (
        "corelane lab scale http --path / --subject",
        "reads a configuration of the reader's nginx",
    ),
    (
        "corelane lab scale http --connections 1M",
        "a minute and gigabytes; bench/million.sh runs it",
    ),
    (
        "unshare -n corelane load http http://10.9.0.1:8080/",
        "a million connections to a server elsewhere",
    ),
    (
        "corelane lab scale tcp --cpus 0 --modes echo --size 16KiB",
        "needs two memory nodes; benches/nodes.rs runs it",
    ),
    (
        "corelane report diff near.json far.json",
        "compares the documents of the lines before",
    ),
    (
        "$ sudo corelane rss --dev eth0",
        "with the output of a run; rss.rs runs this form",
    ),
    (
        "$ corelane steer --pid",
        "with the output of a run; examples.rs runs these forms with nginx",
    ),
];

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

/// The fenced blocks of a page: the word after the fence, and the lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            blocks.push((kind, lines.by_ref().take_while(|line| *line != "```").collect()));
        }
    }
    blocks
}

fn for_a_checkout(line: &str) -> bool {
    ["make ", "cargo ", "git ", "sudo ", "tests/"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// A shell script for one block: it stops at the first command that fails and stops the background processes.
fn script(block: &[&str]) -> String {
    let mut script = format!(
        "set -eu
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
{LAB}
corelane() {{ case \"$1 $*\" in 'lab '*--dry-run*) command corelane \"$@\";; 'lab '*) lab \"$@\";; *) command corelane \"$@\";; esac; }}
listens() {{ until grep -q '^listening on ' served; do kill -0 $! || exit 1; command sleep 0.01; done; }}
wait() {{ kill $!; builtin wait $!; }}
"
    );
    for line in block.iter().filter(|line| !for_a_checkout(line)) {
        match line.strip_suffix(" &") {
            Some(server) => {
                let mut words = server.split(' ');
                let mut kept = Vec::new();
                while let Some(word) = words.next() {
                    match word {
                        "--duration" => _ = words.next(),
                        word => kept.push(word),
                    }
                }
                script.push_str(&format!("env {} > served & listens\n", kept.join(" ")));
            }
            None => {
                script.push_str(line);
                script.push('\n');
            }
        }
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
        for (kind, block) in blocks(&text) {
            let nothing = block.iter().all(|line| line.is_empty() || for_a_checkout(line));
            if kind != "sh" || nothing {
                continue;
            }
            let _alone = alone_on_loopback();
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

#[test]
fn commands_that_are_shown_and_not_run_are_listed() {
    let texts: Vec<String> = pages()
        .iter()
        .map(|page| fs::read_to_string(page).unwrap())
        .collect();
    let blocks = texts.iter().flat_map(|text| blocks(text));
    let lines = blocks
        .filter(|(kind, _)| *kind != "sh")
        .flat_map(|(_, lines)| lines);
    let commands: Vec<&str> = lines
        .filter(|line| line.split(' ').rev().skip(1).any(|word| word == "corelane"))
        .collect();
    let listed = |line: &&&str| !SHOWN.iter().any(|(start, _)| line.starts_with(start));
    let unlisted: Vec<_> = commands.iter().filter(listed).collect();
    assert!(unlisted.is_empty(), "neither run nor listed: {unlisted:#?}");
    for (start, why) in SHOWN {
        let shown = commands.iter().any(|line| line.starts_with(start));
        assert!(shown, "no page shows it any more: {start} ({why})");
    }
}
