//! Files and functions stay small: `tests/bounds.toml` lists the larger ones with their sizes, which may only decrease.

use corelane_tests::{repository, shipped_files, source_files};
use std::collections::BTreeMap;
use std::fs;

/// The usual limit of lines in a file: a longer one usually has two subjects.
const FILE_LINES: usize = 500;

/// The usual limit of lines in a function: a longer one usually does two things.
const FUNCTION_LINES: usize = 60;

/// The larger files or functions, with their maximum number of lines.
type Bounds = BTreeMap<String, usize>;

#[test]
fn files_and_functions_stay_small_and_larger_ones_only_shrink() {
    let (mut files, mut longest) = (Bounds::new(), Bounds::new());
    for (path, text) in source_files() {
        for (name, lines) in functions(&text) {
            let entry = longest.entry(format!("{path} {name}")).or_default();
            *entry = lines.max(*entry);
        }
        files.insert(path, text.lines().count());
    }
    let table: BTreeMap<String, Bounds> =
        toml::from_str(&fs::read_to_string(repository().join("tests/bounds.toml")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (kind, sizes, usual) in [
        ("files", &files, FILE_LINES),
        ("functions", &longest, FUNCTION_LINES),
    ] {
        wrong.extend(compare(&table[kind], sizes, usual));
    }
    assert!(
        wrong.is_empty(),
        "against tests/bounds.toml, whose numbers only go down:\n{}",
        wrong.join("\n")
    );
}

/// The items that are larger than permitted, and the corrections to the table for those that have shrunk.
fn compare(bounds: &Bounds, sizes: &Bounds, usual: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, lines) in sizes {
        match bounds.get(name) {
            None if *lines > usual => wrong.push(format!("{name}: {lines} lines, at most {usual}")),
            Some(bound) if lines > bound => wrong.push(format!("{name}: {lines} lines, at most {bound}")),
            Some(_) if *lines <= usual => wrong.push(format!("{name} is small now: take it off the table")),
            Some(bound) if lines < bound => wrong.push(format!("{name} has shrunk: write {lines}")),
            _ => {}
        }
    }
    let gone = bounds.keys().filter(|name| !sizes.contains_key(*name));
    wrong.extend(gone.map(|name| format!("{name} is gone: take it off the table")));
    wrong
}

#[test]
fn a_bound_holds_new_ones_and_larger_ones_back_and_follows_what_shrinks() {
    let bounds = |entries: &[(&str, usize)]| -> Bounds {
        entries
            .iter()
            .map(|(name, lines)| ((*name).to_owned(), *lines))
            .collect()
    };
    let table = bounds(&[
        ("grown", 70),
        ("shrunk", 90),
        ("small", 80),
        ("gone", 65),
        ("same", 66),
    ]);
    let sizes = bounds(&[
        ("grown", 71),
        ("shrunk", 61),
        ("small", 60),
        ("same", 66),
        ("new", 61),
        ("usual", 60),
    ]);
    assert_eq!(
        compare(&table, &sizes, 60),
        [
            "grown: 71 lines, at most 70",
            "new: 61 lines, at most 60",
            "shrunk has shrunk: write 61",
            "small is small now: take it off the table",
            "gone is gone: take it off the table",
        ]
    );
}

/// Prints the counts (see them with `--nocapture`). There is no limit, because a feature may need any number of lines.
#[test]
fn the_shipped_lines_of_each_crate_are_counted() {
    let mut crates = Bounds::new();
    for (path, lines) in shipped_files() {
        let name = path.split('/').nth(1).unwrap_or_default();
        *crates.entry(name.to_owned()).or_default() += lines.len();
    }
    for (name, lines) in &crates {
        println!("{name:10}{lines:7}");
    }
    println!("{:10}{:7}", "total", crates.values().sum::<usize>());
}

/// Functions of formatted Rust and their lengths: from the line of `fn` to the closing brace at its indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut open: BTreeMap<usize, (String, usize)> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let is_head = words.split_once("fn ").is_some_and(|(before, _)| {
            let starts = ["pub", "const", "async", concat!("un", "safe"), "extern", "\"C\""];
            before
                .split_whitespace()
                .all(|word| starts.iter().any(|start| word.starts_with(start)))
        });
        if is_head && !words.ends_with(';') && !words.ends_with('}') {
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
