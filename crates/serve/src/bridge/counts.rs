//! What a worker counts: one block each, written by it alone and read by anyone.

use corelane_link::Tally;
use corelane_table::Value;
use corelane_worker::Counter;
use std::sync::{Mutex, PoisonError};

/// The counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// Of each link, in the plan's order.
    pub links: Vec<LinkCounts>,
    /// Of each table, in the plan's order.
    pub tables: Vec<TableCounts>,
    /// Frames that a table said to drop.
    pub dropped_by_table: Counter,
    /// Frames with addresses that no table decided, dropped because the plan says so.
    pub dropped_otherwise: Counter,
    /// Frames without an IP header, seen.
    pub not_ip: Counter,
    /// Frames whose IP header is cut off or contradicts itself, seen.
    pub malformed: Counter,
    /// Frames of the two kinds above, dropped because the plan says so.
    pub dropped_not_ip: Counter,
}

/// What one worker did with its queues of one link.
#[derive(Debug, Default)]
pub struct LinkCounts {
    /// The link's own counts, as last asked for in a pause of the traffic.
    tally: Mutex<Tally>,
    /// Frames not sent there because it had no room.
    pub full: Counter,
    /// Frames not sent there because they were too long for it.
    pub oversized: Counter,
    /// Frames not sent there because the link was lost.
    pub link_lost: Counter,
}

/// What one worker found in one table.
#[derive(Debug, Default)]
pub struct TableCounts {
    /// Frames that were looked up.
    pub asked: Counter,
    /// Frames that matched.
    pub matched: Counter,
    /// Frames that matched, by the value of the entry.
    pub values: Vec<Counter>,
}

impl WorkerCounts {
    /// Zeros, for so many links and tables.
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

impl LinkCounts {
    /// Publishes the link's own counts.
    pub(super) fn publish(&self, tally: Tally) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = tally;
    }

    /// The link's own counts, as last published.
    #[must_use]
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
