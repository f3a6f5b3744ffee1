//! Live counters of one worker.

use super::cause::DropCause;
use corelane_worker::Counter;

/// The counters of one worker: written by it alone, readable by any thread.
#[derive(Debug, Default)]
pub(super) struct BucketCounters {
    pub(super) seen: Counter,
    pub(super) seen_bytes: Counter,
    /// Answers of flows without a socket of their own although they should have one.
    pub(super) answered_unconnected: Counter,
    /// Datagrams that the worker received and did not answer, by cause.
    pub(super) dropped: [Counter; DropCause::COUNT],
}
