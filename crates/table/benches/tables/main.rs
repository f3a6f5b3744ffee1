//! The speed of the tables on this machine: rates, and their ratios to the limit and to the post's table, from one run.
//!
//! `cargo bench -p corelane-table [-- lookups | readers | loading]`. The ways alternate in every round, each with
//! queries that no way has used shortly before, and each figure is the median of the rounds, so that other programs on
//! the machine affect all of them alike.

mod keys;
mod loading;
mod lookups;
mod readers;
mod rounds;

/// Entries of the tables, as in the post: "a reasonably large hash table set (~ 6 million entries)".
const ENTRIES: usize = 6_000_000;

fn main() {
    let parts: [(&str, fn()); 3] = [
        ("lookups", lookups::run),
        ("readers", readers::run),
        ("loading", loading::run),
    ];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let all = !parts
        .iter()
        .any(|(name, _)| chosen.iter().any(|chosen| chosen == name));
    for (name, run) in parts {
        if all || chosen.iter().any(|chosen| chosen == name) {
            run();
        }
    }
}
