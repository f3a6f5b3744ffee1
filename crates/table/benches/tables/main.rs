//! How fast the tables are on this machine: rates, and their ratios to the limit and to the post's table, from one run.
//!
//! `cargo bench -p corelane-table [-- lookups | readers | loading]`. Ways take turns in every round, each on queries that
//! no way saw shortly before, and each figure is the median of the rounds, so that what else runs on the machine meets all
//! of them alike.

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
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let all = !parts
        .iter()
        .any(|(name, _)| asked.iter().any(|asked| asked == name));
    for (name, run) in parts {
        if all || asked.iter().any(|asked| asked == name) {
            run();
        }
    }
}
