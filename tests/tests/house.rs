//! The house holds: a room names only rooms of a lower rank, each opens with a README, unsafe stays where it is allowed,
//! and files and functions stay within their bounds.

use corelane_tests::{repository, source_files};
use std::collections::BTreeMap;
use std::fs;

/// Rooms and their ranks, as `docs/ARCHITECTURE.md` draws them.
const RANKS: &[(&str, u32)] = &[
    ("rss", 0),
    ("table", 0),
    ("proto", 0),
    ("measure", 0),
    ("report", 1),
    ("packet", 1),
    ("host", 1),
    ("link", 1),
    ("observe", 2),
    ("guest", 1),
    ("worker", 2),
    ("serve", 3),
    ("load", 3),
    ("lab", 4),
    ("cli", 5),
];

/// Folders and files that may hold unsafe code: the older ethtool calls, which take a pointer; what links share with the
/// kernel, SIMD ways of the hash, and the engines' system calls.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/host/src/ethtool/ioctl.rs",
    "crates/link/benches/",
    "crates/link/src/",
    "crates/rss/src/toeplitz/",
    "crates/table/src/memory/",
    "crates/worker/src/engine/",
    "crates/worker/src/sys",
];

/// A file of more lines holds two things.
const LARGEST_FILE_LINES: usize = 600;

/// A function of more lines does two things.
const LONGEST_FUNCTION_LINES: usize = 70;

fn rank(room: &str) -> Option<u32> {
    RANKS
        .iter()
        .find(|(name, _)| *name == room)
        .map(|(_, rank)| *rank)
}

#[test]
fn a_room_names_only_rooms_of_a_lower_rank() {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let room = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))
            .unwrap()
            .parse()
            .unwrap();
        let own = rank(&room).unwrap_or_else(|| panic!("crates/{room} has no rank: add it to RANKS"));
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for other in table.keys().filter_map(|name| name.strip_prefix("corelane-")) {
                if rank(other).is_none_or(|other| other >= own) {
                    wrong.push(format!(
                        "{room} (rank {own}) names {other} (rank {:?})",
                        rank(other)
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "dependencies against the ranks:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_room_opens_with_a_readme() {
    let missing: Vec<_> = RANKS
        .iter()
        .map(|(room, _)| repository().join("crates").join(room).join("README.md"))
        .filter(|path| !path.exists())
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

#[test]
fn unsafe_code_lives_where_it_is_allowed_and_says_why() {
    let mut wrong = Vec::new();
    for (path, text) in source_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = [["unsafe", " {"].concat(), ["unsafe", " impl"].concat()];
            if !opens.iter().any(|opening| code.contains(opening.as_str())) {
                continue;
            }
            if !UNSAFE_ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
                wrong.push(format!("{path}:{}: unsafe outside the rooms that may", index + 1));
            }
            let near = &lines[index.saturating_sub(4)..=index];
            if !near.iter().any(|line| line.contains("SAFETY:")) {
                wrong.push(format!("{path}:{}: no SAFETY line", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_and_functions_stay_within_their_bounds() {
    let mut wrong = Vec::new();
    for (path, text) in source_files() {
        let lines = text.lines().count();
        if lines > LARGEST_FILE_LINES {
            wrong.push(format!("{path}: {lines} lines, at most {LARGEST_FILE_LINES}"));
        }
        for (name, lines) in functions(&text) {
            if lines > LONGEST_FUNCTION_LINES {
                wrong.push(format!(
                    "{path}: {name} has {lines} lines, at most {LONGEST_FUNCTION_LINES}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions of formatted Rust and their lengths: from the line of `fn` to the closing brace at its indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut open: BTreeMap<usize, (String, usize)> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let head = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "unsafe fn ",
            "const fn ",
            "pub const fn ",
        ];
        if head.iter().any(|start| words.starts_with(start)) && !words.ends_with(';') && !words.ends_with('}')
        {
            let name = words.split("fn ").nth(1).unwrap_or_default();
            let name = name.split(['(', '<']).next().unwrap_or_default();
            open.insert(indent, (name.to_owned(), number));
        } else if words == "}"
            && let Some((name, start)) = open.remove(&indent)
        {
            found.push((name, number - start + 1));
        }
    }
    found
}

#[test]
fn nothing_is_left_unfinished_in_the_code() {
    let words = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X"].concat(),
    ];
    let macros = ["unimplemented", "todo"].map(|name| format!("{name}!"));
    let mut wrong = Vec::new();
    for (path, text) in source_files()
        .into_iter()
        .filter(|(path, _)| path != "tests/tests/house.rs")
    {
        for (number, line) in text.lines().enumerate() {
            let marked = words.iter().any(|word| {
                line.split(|c: char| !c.is_alphanumeric())
                    .any(|part| part == word)
            });
            if marked || macros.iter().any(|name| line.contains(name.as_str())) {
                wrong.push(format!("{path}:{}: {line}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
