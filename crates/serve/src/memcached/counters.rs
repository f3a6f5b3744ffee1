//! What one worker counts: written by it, readable by any thread.

use crate::handshakes::Handshakes;
use crate::shared::lock;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::share::Share;
use corelane_proto::memcached::commands::Counts;
use corelane_proto::memcached::request::Reason;
use corelane_store::NotRead;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

counters! {
    /// Events of the connections and requests of one worker.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Events {
        /// Connections refused because the limit was reached.
        pub rejected_connections: u64,
        /// Connections closed because their client sent nothing for too long.
        pub idle_kicks: u64,
        /// Connections closed because their client took none of its answers while others waited for memory.
        pub stalled: u64,
        /// TLS sessions that failed.
        pub tls_failed: u64,
        /// Times that a connection stopped being served until its client had taken earlier answers.
        pub pauses: u64,
        /// Connections closed because their client began with the binary protocol.
        pub refused_binary: u64,
        /// Connections closed because their client sent a line of HTTP.
        pub refused_http: u64,
        /// Connections closed because their client sent a line that is too long.
        pub refused_long_line: u64,
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
        /// Units of work about a key of another worker that were answered from its memory.
        pub read_directly: u64,
        /// Reads that were handed over because the item was not there, had expired or was flushed.
        pub not_read_absent: u64,
        /// Because the owner would have changed the item.
        pub not_read_unsettled: u64,
        /// Because the owner was changing this stripe of keys each time that it was tried.
        pub not_read_changing: u64,
        /// Because the value was in several parts.
        pub not_read_parts: u64,
        /// Because the owner had earlier requests of the client.
        pub not_read_behind: u64,
        /// Those that other workers handed over.
        pub taken_over: u64,
        /// `flush_all` requests.
        pub flushes: u64,
    }
}

counters! {
    /// What handing requests over to other workers costs.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Handoffs {
        /// Requests handed over of which the time was taken, from asking to the end of the answer.
        pub handoffs_timed: u64,
        /// Nanoseconds that these took together.
        pub handoffs_timed_ns: u64,
        /// How often the mailbox of an owner had no room. Requests of connections, and parts of their values, try again; those of
        /// datagrams are not answered.
        pub handoffs_refused: u64,
    }
}

impl Handoffs {
    /// Mean nanoseconds from asking to the end of the answer.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        let timed = self.handoffs_timed;
        (timed > 0).then(|| self.handoffs_timed_ns as f64 / timed as f64)
    }
}

impl Events {
    /// The share of the units of work that were about a key of the worker that was asked.
    #[must_use]
    pub fn locality(&self) -> Share {
        Share {
            hits: self.local,
            samples: self.local + self.handed_over + self.read_directly,
        }
    }

    /// Counts why an item of another worker was not read.
    pub(super) fn not_read(&mut self, reason: NotRead) {
        *match reason {
            NotRead::Absent => &mut self.not_read_absent,
            NotRead::Unsettled => &mut self.not_read_unsettled,
            NotRead::Changing => &mut self.not_read_changing,
            NotRead::Parts => &mut self.not_read_parts,
        } += 1;
    }

    /// Reads of keys of other workers that were handed over although they may be direct, by cause.
    pub(super) fn not_read_by_cause(&self) -> [(&'static str, u64); 5] {
        [
            ("absent", self.not_read_absent),
            ("unsettled", self.not_read_unsettled),
            ("changing", self.not_read_changing),
            ("parts", self.not_read_parts),
            ("behind", self.not_read_behind),
        ]
    }

    /// Counts why a connection ends.
    pub(super) fn closed(&mut self, reason: Reason) {
        match reason {
            Reason::Quit => {}
            Reason::Binary => self.refused_binary += 1,
            Reason::Http => self.refused_http += 1,
            Reason::LineTooLong => self.refused_long_line += 1,
        }
    }

    /// Connections that were closed for what their client sent or did not take, by cause.
    pub(super) fn closed_by_cause(&self) -> [(&'static str, u64); 4] {
        [
            ("binary_protocol", self.refused_binary),
            ("http", self.refused_http),
            ("line_too_long", self.refused_long_line),
            ("stalled", self.stalled),
        ]
    }

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
    pub(super) handoffs: Handoffs,
    /// How full a mailbox of requests was at most, in percent.
    pub(super) handoff_queue_percent: u64,
    /// Connections accepted.
    pub(super) accepted: u64,
    /// Bytes received on connections.
    pub(super) bytes_read: u64,
    /// Bytes sent on connections.
    pub(super) bytes_written: u64,
}

impl Snapshot {
    /// What was counted after `earlier`; what is counted now is as it is.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands.since(earlier.commands),
            store: self.store.since(&earlier.store),
            events: self.events.since(&earlier.events),
            handoffs: self.handoffs.since(&earlier.handoffs),
            handoff_queue_percent: self.handoff_queue_percent,
            accepted: self.accepted - earlier.accepted,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
        }
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub struct MemcachedCounters {
    published: Mutex<Snapshot>,
    /// What had been published when the statistics that clients see were reset.
    reset: Mutex<Snapshot>,
    /// Items by size, if they are counted: as they were when a client asked last.
    pub(super) sizes: Mutex<Vec<u32>>,
    pub(super) handshakes: Handshakes,
}

impl MemcachedCounters {
    pub(super) fn publish(&self, snapshot: Snapshot) {
        *lock(&self.published) = snapshot;
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        *lock(&self.published)
    }

    /// What was counted since the statistics were reset.
    pub(super) fn since_reset(&self) -> Snapshot {
        let reset = *lock(&self.reset);
        self.snapshot().since(&reset)
    }

    /// Statistics begin at what is published now.
    pub(super) fn reset(&self) {
        *lock(&self.reset) = self.snapshot();
    }
}

/// The counts of commands, by the names of memcached's general statistics.
pub(super) fn named(counts: &Counts) -> [(&'static str, u64); 19] {
    let mut counts = *counts;
    counts.named().map(|(name, count)| (name, *count))
}
