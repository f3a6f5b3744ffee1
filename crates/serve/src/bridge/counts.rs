//! Counters of a worker: one block per worker, written by it alone, readable by any thread.

use corelane_link::Tally;
use corelane_table::Value;
use corelane_worker::Counter;
use std::sync::Mutex;

/// The counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// By link, in the plan's order.
    pub links: Vec<LinkCounts>,
    /// By table, in the plan's order.
    pub tables: Vec<TableCounts>,
    /// Frames dropped by a table.
    pub dropped_by_table: Counter,
    /// Frames with addresses that no table decided on, dropped by the plan's default.
    pub dropped_otherwise: Counter,
    /// Frames received without an IP header.
    pub not_ip: Counter,
    /// Frames received with a truncated or inconsistent IP header.
    pub malformed: Counter,
    /// Frames of the two kinds above, dropped by the plan's default.
    pub dropped_not_ip: Counter,
}

/// Counters of one worker's queues of one link.
#[derive(Debug, Default)]
pub struct LinkCounts {
    /// The link's own counters, as of the last idle period.
    pub tally: Mutex<Tally>,
    /// Frames not sent because the link was full.
    pub full: Counter,
    /// Frames not sent because they were too long for the link.
    pub oversized: Counter,
    /// Frames not sent because the link was lost.
    pub link_lost: Counter,
}

/// Counters of one worker for one table.
#[derive(Debug, Default)]
pub struct TableCounts {
    /// Frames that were looked up.
    pub asked: Counter,
    /// Frames that matched.
    pub matched: Counter,
    /// Frames that matched, by value of the entry.
    pub values: Vec<Counter>,
}

impl WorkerCounts {
    /// Zeroed counters for this many links and tables.
    #[must_use]
    pub fn new(links: usize, tables: usize) -> WorkerCounts {
        let table = || TableCounts {
            values: (0..=Value::LARGEST).map(|_| Counter::new()).collect(),
            ..TableCounts::default()
        };
        WorkerCounts {
            links: (0..links).map(|_| LinkCounts::default()).collect(),
            tables: (0..tables).map(|_| table()).collect(),
            ..WorkerCounts::default()
        }
    }
}
