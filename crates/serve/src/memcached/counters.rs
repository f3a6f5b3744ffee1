//! What one worker counts: written by it, readable by any thread.

use crate::handshakes::Handshakes;
use crate::shared::lock;
use corelane_measure::counters;
use corelane_proto::memcached::commands::Counts;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

counters! {
    /// Events of the connections and requests of one worker.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Events {
        /// Connections refused because the limit was reached.
        pub rejected_connections: u64,
        /// TLS sessions that failed.
        pub tls_failed: u64,
        /// Times that a connection stopped being served until its client had taken earlier answers.
        pub pauses: u64,
        /// Connections closed because their client sent no request of this protocol: a line without end, HTTP, the binary protocol.
        pub protocol_errors: u64,
        /// Datagrams that were requests.
        pub datagrams: u64,
        /// Datagrams that were no request, or that a rule forbids to answer.
        pub datagrams_refused: u64,
        /// Requests in datagrams that got no answer because other workers had no room for them.
        pub datagrams_overloaded: u64,
        /// Those whose answer is too large for datagrams.
        pub datagrams_too_large: u64,
        /// Those whose answer is too large for a sender that nothing proves.
        pub datagrams_withheld: u64,
        /// Units of work about a key of this worker.
        pub local: u64,
        /// Units of work handed over to the worker that owns their key.
        pub handed_over: u64,
        /// Those that other workers handed over.
        pub taken_over: u64,
        /// `flush_all` requests.
        pub flushes: u64,
    }
}

impl Events {
    /// Datagrams that got no answer, by cause.
    pub(super) fn unanswered(&self) -> [(&'static str, u64); 4] {
        [
            ("refused", self.datagrams_refused),
            ("overloaded", self.datagrams_overloaded),
            ("too_large", self.datagrams_too_large),
            ("withheld", self.datagrams_withheld),
        ]
    }
}

/// What a worker last published.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Snapshot {
    /// Requests by command and outcome.
    pub(super) commands: Counts,
    pub(super) store: corelane_store::Counts,
    pub(super) events: Events,
    /// Connections accepted.
    pub(super) accepted: u64,
    /// Bytes received on connections.
    pub(super) bytes_read: u64,
    /// Bytes sent on connections.
    pub(super) bytes_written: u64,
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub struct MemcachedCounters {
    published: Mutex<Snapshot>,
    pub(super) handshakes: Handshakes,
}

impl MemcachedCounters {
    pub(super) fn publish(&self, snapshot: Snapshot) {
        *lock(&self.published) = snapshot;
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        *lock(&self.published)
    }
}

/// The counts of commands, by the names of memcached's general statistics.
pub(super) fn named(counts: &Counts) -> [(&'static str, u64); 19] {
    [
        ("cmd_get", counts.gets),
        ("cmd_set", counts.sets),
        ("cmd_touch", counts.touches),
        ("cmd_meta", counts.metas),
        ("get_hits", counts.get_hits),
        ("get_misses", counts.get_misses),
        ("delete_misses", counts.delete_misses),
        ("delete_hits", counts.delete_hits),
        ("incr_misses", counts.incr_misses),
        ("incr_hits", counts.incr_hits),
        ("decr_misses", counts.decr_misses),
        ("decr_hits", counts.decr_hits),
        ("cas_misses", counts.cas_misses),
        ("cas_hits", counts.cas_hits),
        ("cas_badval", counts.cas_badval),
        ("touch_hits", counts.touch_hits),
        ("touch_misses", counts.touch_misses),
        ("store_too_large", counts.too_large),
        ("store_no_memory", counts.no_memory),
    ]
}
