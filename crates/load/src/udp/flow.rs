//! One source socket of the generator: datagrams sent, returned and outstanding.
//!
//! Designed for a million sockets: about 100 bytes, no allocation, besides protocol state.

use corelane_proto::probe::{Arrival, Sequence};
use corelane_worker::engine::Id;

/// A datagram that an answer overtook by so many is lost, or as good as that: as many as a window has at most, and half of those
/// whose arrival is remembered.
const FAR: u32 = 256;

/// One source socket.
#[derive(Debug)]
pub(super) struct Flow<S> {
    pub(super) id: Id,
    /// Index of its lease within the worker.
    pub(super) lease: u32,
    /// Datagrams sent; equals the next sequence number.
    pub(super) sent: u32,
    /// Sequence numbers before this one are settled: answered, overtaken by an answer, or timed out. If answers come in any order,
    /// so many are.
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
    /// accordingly. If answers come in `any_order`, only those that it overtook by [`FAR`] leave it.
    pub(super) fn arrive(&mut self, sequence: u32, any_order: bool) -> Arrival {
        let before = self.returned.end();
        let arrival = self.returned.arrive(sequence, self.sent);
        if any_order {
            let settled = self.settled_by(arrival, before, sequence);
            self.settled = self.settled.wrapping_add(settled.min(self.outstanding()));
        } else if arrival == Arrival::InOrder
            && self.returned.end().wrapping_sub(self.settled) <= self.outstanding()
        {
            self.settled = self.returned.end();
        }
        arrival
    }

    /// How many datagrams an answer settles when answers come in any order; the newest before it was `before`.
    fn settled_by(&self, arrival: Arrival, before: u32, sequence: u32) -> u32 {
        let end = self.returned.end();
        match arrival {
            Arrival::InOrder => {
                let passed = (0..end.wrapping_sub(before).min(FAR))
                    .filter_map(|step| before.wrapping_add(step).checked_sub(FAR));
                1 + passed
                    .filter(|number| !self.returned.has_arrived(*number))
                    .count() as u32
            }
            Arrival::Reordered if end.wrapping_sub(sequence) <= FAR => 1,
            _ => 0,
        }
    }

    /// Settles everything outstanding if there was no progress since the last check.
    pub(super) fn give_up_if_stalled(&mut self) {
        if self.settled == self.settled_then {
            self.settled = self.sent;
        }
        self.settled_then = self.settled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_worker::engine::simulated::{Network, NetworkSettings};
    use corelane_worker::engine::{Engine, EngineSettings};

    fn flow(sent: u32) -> Flow<()> {
        let network = Network::new(NetworkSettings::default());
        let socket = network.socket("10.0.0.1:1".parse().unwrap()).unwrap();
        let mut engine = network.seat().engine(&EngineSettings::default()).unwrap();
        let mut flow = Flow::new(engine.ops().datagrams(socket).unwrap(), 0);
        flow.sent = sent;
        flow
    }

    #[test]
    fn in_any_order_each_answer_settles_its_request_alone() {
        let mut flow = flow(8);
        for (number, outstanding) in [(7, 7), (0, 6), (3, 5), (3, 5), (1, 4)] {
            flow.arrive(number, true);
            assert_eq!(flow.outstanding(), outstanding, "{number}");
        }
        flow.give_up_if_stalled();
        flow.give_up_if_stalled();
        assert_eq!(flow.outstanding(), 0);
        flow.arrive(2, true);
        assert_eq!(flow.outstanding(), 0, "was given up before");
    }

    #[test]
    fn in_any_order_what_was_overtaken_by_far_is_given_up() {
        let mut flow = flow(1);
        for number in 1..600 {
            flow.sent += 1;
            flow.arrive(number, true);
            let lost = u32::from(number < FAR);
            assert_eq!(flow.outstanding(), lost, "{number}");
        }
        flow.arrive(0, true);
        assert_eq!(flow.outstanding(), 0);
    }

    #[test]
    fn in_order_an_answer_settles_what_it_overtook() {
        let mut flow = flow(8);
        flow.arrive(5, false);
        assert_eq!(flow.outstanding(), 2);
    }
}
