//! What one bucket counts: written by its worker, read by anyone.

use crate::causes::CauseCounters;
use corelane_worker::Counter;
use corelane_worker::engine::EngineCounters;

/// The counts of one bucket.
#[derive(Debug, Default)]
pub(super) struct TcpCounters {
    pub(super) accepted: Counter,
    pub(super) closed: Counter,
    pub(super) bytes_received: Counter,
    pub(super) bytes_sent: Counter,
    pub(super) accept_failed: CauseCounters,
    pub(super) broken: CauseCounters,
    /// Times that a connection began to stand still.
    pub(super) stalls: Counter,
    /// Connections that stand still now.
    pub(super) stalled: Counter,
    pub(super) out_of_order: Counter,
    pub(super) retransmitted: Counter,
}

impl TcpCounters {
    /// Takes over what the engine counts.
    pub(super) fn publish(&self, engine: &EngineCounters) {
        let streams = &engine.streams;
        self.accepted.set(streams.accepted);
        self.closed.set(streams.closed);
        self.bytes_received.set(streams.bytes_received);
        self.bytes_sent.set(streams.bytes_sent);
        self.accept_failed.set(&streams.accept_failed);
        self.broken.set(&streams.broken);
    }
}
