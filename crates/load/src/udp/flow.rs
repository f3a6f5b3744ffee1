//! One source socket of the generator: what it has sent, what came back, and how much of it is outstanding.
//!
//! Sized for a million: about 100 bytes, no allocation, beside what a protocol keeps.

use corelane_proto::probe::{Arrival, Sequence};
use corelane_worker::engine::Id;

/// One source socket.
#[derive(Debug, Clone)]
pub(super) struct Flow<S> {
    pub(super) id: Id,
    /// Index of the lease that it belongs to, within its worker.
    pub(super) lease: u32,
    /// Datagrams sent, and so the next sequence number.
    pub(super) sent: u32,
    /// Sequence numbers before this one are settled: answered, overtaken by an answer, or given up.
    settled: u32,
    /// `settled` when the flow was last looked at for stalling.
    settled_then: u32,
    returned: Sequence,
    /// What the protocol keeps.
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

    /// Takes in an answer. What it overtook no longer holds the window: it is late or lost, and is counted as whichever
    /// it turns out to be.
    pub(super) fn arrive(&mut self, sequence: u32) -> Arrival {
        let arrival = self.returned.arrive(sequence, self.sent);
        if arrival == Arrival::InOrder && self.returned.end().wrapping_sub(self.settled) <= self.outstanding()
        {
            self.settled = self.returned.end();
        }
        arrival
    }

    /// Gives up what has been outstanding since the last look without any progress.
    pub(super) fn give_up_if_stalled(&mut self) {
        if self.settled == self.settled_then {
            self.settled = self.sent;
        }
        self.settled_then = self.settled;
    }
}
