//! Counters of a worker: one block per worker, written by it alone, readable by any thread.

use corelane_link::Tally;
use corelane_measure::words;
use corelane_packet::stage::{Cause, TableCounts};
use corelane_worker::Counter;
use std::sync::{Arc, Mutex};

/// The counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// By link, in the plan's order.
    pub links: Vec<LinkCounts>,
    /// Those of the tables, in the plan's order.
    pub tables: Arc<TableCounts>,
    /// Frames that stages dropped, by cause.
    pub dropped: Vec<Counter>,
    /// Frames that stages held.
    pub held: Counter,
    /// Frames that others replaced.
    pub replaced: Counter,
    /// Frames that stages made.
    pub made: Counter,
    /// Frames put into the mailbox of another worker.
    pub handed_over: Counter,
    /// Frames for another worker that its mailbox had no room for.
    pub mailbox_full: Counter,
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

impl WorkerCounts {
    /// Zeroed counters for this many links and tables.
    #[must_use]
    pub fn new(links: usize, tables: usize) -> WorkerCounts {
        WorkerCounts {
            links: (0..links).map(|_| LinkCounts::default()).collect(),
            tables: Arc::new(TableCounts::new(tables)),
            dropped: words::all::<Cause>().iter().map(|_| Counter::new()).collect(),
            ..WorkerCounts::default()
        }
    }
}
