//! Rules of the workspace: a crate depends only on crates of a lower rank, each has a README, unsafe code is only in
//! permitted files, files and functions stay within their bounds, and modules do not import each other in a circle.

mod arrows;
mod bounds;
mod circles;
mod modules;

use corelane_tests::{repository, source_files};
use std::collections::BTreeSet;
use std::fs;

/// Crates and their ranks, as drawn in `docs/ARCHITECTURE.md`.
const RANKS: &[(&str, u32)] = &[
    ("rss", 0),
    ("table", 0),
    ("proto", 0),
    ("measure", 0),
    ("report", 1),
    ("packet", 1),
    ("host", 1),
    ("store", 1),
    ("guest", 1),
    ("link", 2),
    ("stage", 2),
    ("observe", 2),
    ("worker", 2),
    ("loops", 3),
    ("serve", 3),
    ("load", 3),
    ("lab", 4),
    ("cli", 5),
];

/// The files with unsafe code: the older ethtool calls, which take a pointer; the resolver of static programs;
/// the memory that links share with the kernel; SIMD variants of hashing and lookups; the engines' system calls.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/host/src/ethtool/ioctl.rs",
    "crates/host/src/resolver.rs",
    "crates/link/benches/veth/bare.rs",
    "crates/link/src/burst.rs",
    "crates/link/src/memory/lane.rs",
    "crates/link/src/memory/mod.rs",
    "crates/link/src/memory/rendezvous.rs",
    "crates/link/src/packet_socket/mod.rs",
    "crates/link/src/packet_socket/receive_ring.rs",
    "crates/link/src/packet_socket/transmit_ring.rs",
    "crates/link/src/system/bpf.rs",
    "crates/link/src/system/device.rs",
    "crates/link/src/system/mapping.rs",
    "crates/link/src/system/mod.rs",
    "crates/link/src/system/ring.rs",
    "crates/link/src/system/socket.rs",
    "crates/link/src/tap.rs",
    "crates/link/src/xdp/mod.rs",
    "crates/link/src/xdp/socket.rs",
    "crates/rss/src/toeplitz/carryless.rs",
    "crates/rss/src/toeplitz/gfni.rs",
    "crates/rss/src/toeplitz/transpose.rs",
    "crates/store/src/memory.rs",
    "crates/table/src/memory/lanes/avx2.rs",
    "crates/table/src/memory/lanes/avx512.rs",
    "crates/table/src/memory/lanes/mod.rs",
    "crates/table/src/memory/lanes/portable.rs",
    "crates/table/src/memory/lanes/sse2.rs",
    "crates/table/src/memory/line.rs",
    "crates/table/src/memory/mapping.rs",
    "crates/table/src/memory/prefetch.rs",
    "crates/table/src/memory/region.rs",
    "crates/table/src/memory/scalar.rs",
    "crates/worker/src/engine/uring/ring.rs",
    "crates/worker/src/system/descriptor.rs",
    "crates/worker/src/system/foreign.rs",
    "crates/worker/src/system/memory.rs",
    "crates/worker/src/system/message.rs",
    "crates/worker/src/system/option.rs",
    "crates/worker/src/system/placement.rs",
    "crates/worker/src/system/poll.rs",
    "crates/worker/src/system/signal.rs",
];

fn rank(name: &str) -> Option<u32> {
    RANKS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, rank)| *rank)
}

#[test]
fn a_crate_names_only_crates_of_a_lower_rank() {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))
            .unwrap()
            .parse()
            .unwrap();
        let own = rank(&name).unwrap_or_else(|| panic!("crates/{name} has no rank: add it to RANKS"));
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for other in table.keys().filter_map(|name| name.strip_prefix("corelane-")) {
                if rank(other).is_none_or(|other| other >= own) {
                    wrong.push(format!(
                        "{name} (rank {own}) names {other} (rank {:?})",
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

/// What crates.io and docs.rs show of a crate.
#[test]
fn every_crate_can_be_published() {
    let mut missing = Vec::new();
    for (name, _) in RANKS {
        let folder = repository().join("crates").join(name);
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        for field in [
            "description",
            "keywords",
            "categories",
            "license",
            "include",
            "rust-version",
        ] {
            if !manifest["package"].as_table().unwrap().contains_key(field) {
                missing.push(format!("{name}: {field}"));
            }
        }
    }
    assert!(missing.is_empty(), "missing: {missing:?}");
}

#[test]
fn every_crate_has_a_readme() {
    let missing: Vec<_> = RANKS
        .iter()
        .map(|(name, _)| repository().join("crates").join(name).join("README.md"))
        .filter(|path| !path.exists())
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// A module with children is `x/mod.rs`, in the folder of its children.
#[test]
fn no_module_root_is_beside_its_folder() {
    let is_beside = |path: &String| repository().join(path.trim_end_matches(".rs")).is_dir();
    let shipped = source_files().into_iter().map(|(path, _)| path);
    let beside: Vec<String> = shipped
        .filter(|path| path.split('/').nth(2) == Some("src"))
        .filter(is_beside)
        .collect();
    assert!(beside.is_empty(), "name them mod.rs: {beside:?}");
}

/// The word after `unsafe` in a line of code: `{`, `impl`, `fn`, `trait`, `extern`, or `(` in an attribute.
fn unsafe_kind(code: &str) -> Option<&str> {
    const KEYWORD: &str = concat!("un", "safe");
    let (before, after) = code.split_once(KEYWORD)?;
    let is_word = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    let after = after.trim_start();
    let kinds = ["{", "impl", "fn", "trait", "extern", "("];
    let kind = kinds.into_iter().find(|kind| after.starts_with(kind))?;
    is_word.then_some(kind)
}

#[test]
fn the_keyword_is_found_in_every_place_that_takes_it() {
    let keyword = concat!("un", "safe");
    for (code, kind) in [
        ("    @ { call() }", Some("{")),
        ("pub @ fn new()", Some("fn")),
        ("@ extern \"C\" {", Some("extern")),
        ("#[@(no_mangle)]", Some("(")),
        ("fn @_code_lives()", None),
        ("let not_@ = 1;", None),
    ] {
        assert_eq!(unsafe_kind(&code.replace('@', keyword)), kind, "{code}");
    }
}

#[test]
fn unsafe_code_lives_where_it_is_allowed_and_says_why() {
    let mut wrong = Vec::new();
    let mut files_with_unsafe = BTreeSet::new();
    for (path, text) in source_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let Some(kind) = unsafe_kind(code) else {
                continue;
            };
            files_with_unsafe.insert(path.clone());
            if !UNSAFE_ALLOWED.contains(&path.as_str()) {
                wrong.push(format!("{path}:{}: unsafe outside the files that may", index + 1));
            }
            // A contract that callers must keep is documented at the declaration, which clippy checks.
            if matches!(kind, "fn" | "trait") {
                continue;
            }
            let near = &lines[index.saturating_sub(4)..=index];
            if !near.iter().any(|line| line.contains("SAFETY:")) {
                wrong.push(format!("{path}:{}: no SAFETY line", index + 1));
            }
        }
    }
    for allowed in UNSAFE_ALLOWED {
        if !files_with_unsafe.contains(*allowed) {
            wrong.push(format!("{allowed} has no unsafe code: take it off the list"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
        .filter(|(path, _)| path != "tests/tests/rules/main.rs")
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
