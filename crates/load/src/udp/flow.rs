//! One source socket of the generator: datagrams sent, returned and outstanding.
//!
//! Designed for a million sockets: about 100 bytes, no allocation, besides protocol state.

use corelane_proto::probe::{Arrival, Sequence};
use corelane_worker::engine::Id;

/// One source socket.
#[derive(Debug)]
pub(super) struct Flow<S> {
    pub(super) id: Id,
    /// Index of its lease within the worker.
    pub(super) lease: u32,
    /// Datagrams sent; equals the next sequence number.
    pub(super) sent: u32,
    /// Sequence numbers before this one are settled: answered, overtaken by an answer, or timed out.
    settled: u32,
    /// `settled` at the last stall check.
    settled_then: u32,
    returned: Sequence,
    /// Protocol state.
    pub(super) kept: S,
}

impl<S: Default> Flow<S> {
    pub(super) fn new(id: Id, lease: u32) -> Self {
        Self {
            id,
            lease,
            sent: 0,
            settled: 0,
            settled_then: 0,
            returned: Sequence::default(),
            kept: S::default(),
        }
    }

    /// Datagrams sent and not settled.
    pub(super) fn outstanding(&self) -> u32 {
        self.sent.wrapping_sub(self.settled)
    }

    /// Processes an answer. Datagrams that it overtook leave the window: they are late or lost, and counted
    /// accordingly.
    pub(super) fn arrive(&mut self, sequence: u32) -> Arrival {
        let arrival = self.returned.arrive(sequence, self.sent);
        if arrival == Arrival::InOrder && self.returned.end().wrapping_sub(self.settled) <= self.outstanding()
        {
            self.settled = self.returned.end();
        }
        arrival
    }

    /// Settles everything outstanding if there was no progress since the last check.
    pub(super) fn give_up_if_stalled(&mut self) {
        if self.settled == self.settled_then {
            self.settled = self.sent;
        }
        self.settled_then = self.settled;
    }
}
