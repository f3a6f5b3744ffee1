//! Live counters of one worker.

use corelane_worker::Counter;

/// The counters of one worker: written by it alone, readable by any thread.
#[derive(Debug, Default)]
pub(super) struct BucketCounters {
    pub(super) seen: Counter,
    pub(super) seen_bytes: Counter,
    /// Answers of flows without a socket of their own although they should have one.
    pub(super) answered_unconnected: Counter,
    pub(super) queue_full: Counter,
    pub(super) refused_port: Counter,
    pub(super) refused_peer: Counter,
    pub(super) refused_broadcast: Counter,
    pub(super) refused_echo: Counter,
    pub(super) refused_loop: Counter,
    pub(super) truncated: Counter,
    /// Not answered, because the kernel did not report the destination.
    pub(super) no_destination: Counter,
    pub(super) steering_samples: Counter,
    pub(super) steering_right: Counter,
}
