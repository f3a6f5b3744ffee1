//! Counters of a worker: one block per worker, written by it alone, readable by any thread.

use corelane_link::Tally;
use corelane_measure::histogram::Histogram;
use corelane_stage::{RuleCounts, TableCounts};
use corelane_worker::Counter;
use std::sync::{Arc, Mutex};

/// The counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// By link, in the plan's order.
    pub links: Vec<LinkCounts>,
    /// Those of the verdict of all tables.
    pub tables: Arc<TableCounts>,
    /// Those of each table, in the plan's order.
    pub rules: Mutex<Vec<Arc<RuleCounts>>>,
    /// Frames received from links.
    pub received: Counter,
    /// Frames that went on to links.
    pub passed: Counter,
    /// How long each frame may have waited in its batch: from the receive call to the end of the stages. `None`: not measured.
    pub batch_wait: Option<Mutex<Histogram>>,
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
    /// Zeroed counters for this many links.
    #[must_use]
    pub fn new(links: usize) -> WorkerCounts {
        WorkerCounts {
            links: (0..links).map(|_| LinkCounts::default()).collect(),
            ..WorkerCounts::default()
        }
    }
}
