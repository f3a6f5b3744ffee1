//! What rebalancing did, in words: a line per move for the log, and a summary.

use crate::log::log_line;
use corelane_measure::quantity::{count, rate};
use corelane_worker::rebalancing::{Rebalanced, Rebalancing, RecordedMove};

/// Writes the moves since the last call to standard error, and why rebalancing ended if it has.
pub fn log(rebalancing: &mut Rebalancing) {
    for line in rebalancing.take_moves().iter().map(line) {
        log_line(&line);
    }
    if let Some(reason) = rebalancing.take_end() {
        log_line(&format!("rebalancing ended, the table stays as it is: {reason}"));
    }
}

fn line(moved: &RecordedMove) -> String {
    let entry = &moved.entry;
    let [load, from, to] = [entry.load, moved.from_load, moved.to_load].map(|load| rate(load as f64));
    format!(
        "entry {} moved from bucket {} ({from}) to bucket {} ({to}), load {load}, generation {}",
        entry.entry, entry.from, entry.to, moved.generation
    )
}

/// The summary; nothing without rebalancing.
pub fn rebalanced(done: Option<&Rebalanced>) -> String {
    let Some(done) = done else { return String::new() };
    let [moved, changes, decisions] = [done.moved, done.changes, done.decisions].map(count);
    let ended = done
        .ended_because
        .iter()
        .map(|reason| format!("rebalancing ended: {reason}\n"));
    let summary = format!("rebalanced: {moved} entries moved in {changes} changes, {decisions} decisions\n");
    summary + &ended.collect::<String>()
}
