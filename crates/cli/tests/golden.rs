//! Documents of an earlier version and the expected output for them: they must still parse and print the same.
//!
//! `UPDATE_GOLDEN=1 cargo test -p corelane-cli --test all golden` replaces the expected output with the current output;
//! the documents stay unchanged.

use crate::common::{corelane, refused, run};
use corelane_load::LoadReport;
use corelane_load::http::HttpLoadReport;
use corelane_load::memcached::{MemcachedLoadReport, MemcachedUdpLoadReport};
use corelane_load::packets::PacketsLoadReport;
use corelane_load::tcp::TcpLoadReport;
use corelane_load::udp::UdpLoadReport;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// Documents that `report show` reads.
const SHOWN: [&str; 21] = [
    "scale-udp",
    "scale-udp-observed",
    "scale-http",
    "scale-tcp",
    "scale-memcached",
    "simulate",
    "classify",
    "engines",
    "rebalance",
    "nic",
    "path",
    "cache",
    "load-udp",
    "load-udp-failed",
    "load-tcp",
    "load-http",
    "load-memcached",
    "load-memcached-udp",
    "load-packets",
    "joined",
    "bridge-explain",
];

/// Documents of generators; each has another one that is merged with it.
const LOADS: [&str; 6] = ["udp", "tcp", "http", "memcached", "memcached-udp", "packets"];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

fn document(name: &str) -> String {
    golden(&format!("documents/{name}.json")).display().to_string()
}

/// The command's output at 100 columns, whether it succeeded or not.
fn printed(arguments: &[&str]) -> String {
    let output = corelane(arguments).env("COLUMNS", "100").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

/// Appends to `wrong` the lines that differ between a golden file and the current output.
fn compare(name: &str, now: &str, wrong: &mut String) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, now).unwrap();
        return;
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    if before == now {
        return;
    }
    writeln!(wrong, "{name}:").unwrap();
    let (before, now): (Vec<_>, Vec<_>) = (before.lines().collect(), now.lines().collect());
    for index in 0..before.len().max(now.len()) {
        let (before, now) = (before.get(index), now.get(index));
        if before != now {
            writeln!(wrong, "- {}\n+ {}", before.unwrap_or(&""), now.unwrap_or(&"")).unwrap();
        }
    }
}

fn assert_nothing_wrong(wrong: &str) {
    assert!(wrong.is_empty(), "if meant, run with UPDATE_GOLDEN=1:\n{wrong}");
}

#[test]
fn documents_of_the_version_before_read_the_same_as_text() {
    let mut wrong = String::new();
    for name in SHOWN {
        let text = printed(&["report", "show", &document(name)]);
        compare(&format!("documents/{name}.txt"), &text, &mut wrong);
    }
    assert_nothing_wrong(&wrong);
}

/// The distinct numbers and headings of a page, sorted.
fn facts(page: &str) -> BTreeSet<String> {
    let tags = page.split('<').skip(1);
    tags.filter_map(|tag| {
        if let Some(value) = tag.strip_prefix("data value=\"") {
            return Some(format!("data {}", value.split('"').next()?));
        }
        let (head, text) = tag.split_once('>')?;
        let name = head.split(' ').next()?;
        let is_heading = name.len() == 2 && name.starts_with('h') && name != "hr";
        is_heading.then(|| format!("{name} {}", text.replace('\n', " ")))
    })
    .collect()
}

#[test]
fn pages_of_documents_of_the_version_before_hold_every_number_and_heading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html").display().to_string();
    let mut wrong = String::new();
    for name in SHOWN {
        assert!(
            run(&["report", "show", &document(name), "--html", &path])
                .status
                .success()
        );
        let mut now = facts(&fs::read_to_string(&path).unwrap().replace('\u{a0}', " "));
        let expected = format!("documents/{name}.page.txt");
        if std::env::var_os("UPDATE_GOLDEN").is_none() {
            // A page may contain more than before.
            let before = fs::read_to_string(golden(&expected)).unwrap();
            let before: BTreeSet<&str> = before.lines().collect();
            now.retain(|fact| before.contains(fact.as_str()));
        }
        let now: String = now.iter().map(|fact| format!("{fact}\n")).collect();
        compare(&expected, &now, &mut wrong);
    }
    assert_nothing_wrong(&wrong);
}

#[test]
fn documents_of_the_version_before_compare_the_same() {
    let mut wrong = String::new();
    for name in ["scale-udp", "scale-http"] {
        let later = document(&format!("{name}-later"));
        let text = printed(&["report", "diff", &document(name), &later]);
        compare(&format!("documents/{name}.diff.txt"), &text, &mut wrong);
    }
    assert_nothing_wrong(&wrong);
}

#[test]
fn documents_of_generators_of_the_version_before_merge_the_same() {
    let mut wrong = String::new();
    for name in LOADS {
        let [one, other] = ["", "-later"].map(|which| document(&format!("load-{name}{which}")));
        let merged = printed(&["report", "merge", &one, &other]);
        compare(&format!("documents/merged-{name}.json"), &merged, &mut wrong);
        let error = refused(&["report", "merge", &one, &document("scale-udp")], 2);
        assert!(
            error.contains("the document has schema corelane/scale"),
            "{error}"
        );
    }
    let error = refused(&["report", "merge", &document("scale-udp")], 2);
    assert!(error.contains("cannot be merged"), "{error}");
    assert_nothing_wrong(&wrong);
}

/// What differs between a document and the same document read and written again.
fn rewritten<R: LoadReport>(name: &str) -> String {
    let text = fs::read_to_string(document(name)).unwrap();
    let report: R = serde_json::from_str(&text).unwrap();
    let mut before: Map<String, Value> = serde_json::from_str(&text).unwrap();
    before.retain(|field, _| !["tool", "started_unix_s", "command_line"].contains(&field.as_str()));
    // Frame generators wrote no notes.
    before.entry("notes").or_insert_with(|| Value::Array(Vec::new()));
    let after = serde_json::to_value(report).unwrap();
    let after = after.as_object().unwrap();
    let fields = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
    let differ = fields
        .into_iter()
        .filter(|field| before.get(*field) != after.get(*field));
    differ.map(|field| format!("{name}: {field}\n")).collect()
}

#[test]
fn documents_of_generators_keep_every_field() {
    let mut wrong = String::new();
    for which in ["", "-later"] {
        wrong += &rewritten::<UdpLoadReport>(&format!("load-udp{which}"));
        wrong += &rewritten::<TcpLoadReport>(&format!("load-tcp{which}"));
        wrong += &rewritten::<HttpLoadReport>(&format!("load-http{which}"));
        wrong += &rewritten::<MemcachedLoadReport>(&format!("load-memcached{which}"));
        wrong += &rewritten::<MemcachedUdpLoadReport>(&format!("load-memcached-udp{which}"));
        wrong += &rewritten::<PacketsLoadReport>(&format!("load-packets{which}"));
    }
    assert_nothing_wrong(&wrong);
}

/// The verbs below `verb`, from its help.
fn verbs(help: &str) -> Vec<String> {
    let lines = help.lines().take_while(|line| *line != "Options:");
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|verb| verb.starts_with(|letter: char| letter.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_help_of_every_verb_is_as_it_was() {
    let (mut wrong, mut seen) = (String::new(), BTreeSet::new());
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(verb) = left.pop() {
        let arguments: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let help = printed(&arguments);
        left.extend(
            verbs(&help)
                .into_iter()
                .map(|below| [&verb[..], &[below]].concat()),
        );
        let name = if verb.is_empty() {
            "corelane".to_owned()
        } else {
            verb.join("-")
        };
        compare(&format!("help/{name}.txt"), &help, &mut wrong);
        seen.insert(format!("{name}.txt"));
    }
    let kept = fs::read_dir(golden("help")).unwrap();
    let kept: BTreeSet<String> = kept
        .map(|entry| entry.unwrap().file_name().display().to_string())
        .collect();
    assert_eq!(seen, kept, "left: current verbs; right: verbs with a golden file");
    assert_nothing_wrong(&wrong);
}

#[test]
fn exit_codes_are_as_they_were() {
    let mut now = String::new();
    let kept = fs::read_to_string(golden("exit-codes.txt")).unwrap();
    for line in kept.lines() {
        let (_, command) = line.split_once(' ').unwrap();
        let arguments: Vec<&str> = command.split(' ').collect();
        let code = run(&arguments).status.code();
        writeln!(now, "{} {command}", code.expect("it exits without a signal")).unwrap();
    }
    let mut wrong = String::new();
    compare("exit-codes.txt", &now, &mut wrong);
    assert_nothing_wrong(&wrong);
}
