//! What `corelane --version` says: the build, and the instructions that it uses on this CPU.

use corelane_rss::Way;

/// One line per fact, `name: value`.
pub fn long() -> String {
    let ways: Vec<&str> = Way::available().into_iter().map(Way::name).collect();
    format!(
        "{}\ncommit: {}\ntarget: {}\nfeatures: {}\nhash: {}\nlookup: {}",
        env!("CARGO_PKG_VERSION"),
        env!("CORELANE_COMMIT"),
        env!("CORELANE_TARGET"),
        env!("CORELANE_FEATURES"),
        ways.join(", "),
        corelane_table::vectors(),
    )
}
