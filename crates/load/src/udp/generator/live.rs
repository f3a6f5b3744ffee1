//! What an observer sees of a running worker: counters at any time, a snapshot of the rest on request.

use super::Generator;
use crate::showing::Seen;
use crate::udp::document::Counts;
use crate::udp::metrics::LiveDatagrams;
use crate::udp::protocol::DatagramProtocol;
use corelane_worker::engine::{FailureCounts, Ops};
use std::collections::BTreeMap;

impl<P: DatagramProtocol> Generator<P> {
    pub(in crate::udp) fn show(&self, ops: &Ops) {
        let live = &self.lives[self.place];
        live.counts.sent.set(ops.counters().sent);
        live.counts.returned.set(self.tally.counts.returned);
        live.shown.show(|| self.seen(ops));
    }

    /// The live data of this worker.
    pub(super) fn seen(&self, ops: &Ops) -> Seen {
        let counters = ops.counters();
        let counts = Counts {
            refused: by_cause(&counters.send_failed),
            network_errors: by_cause(&counters.errors),
            ..self.tally.counts.clone()
        };
        Seen {
            errors: counts.errors_by_name(),
            times: self.tally.round_trip.clone(),
            ..Seen::of(LiveDatagrams::ALL, &self.lives[self.place].counts)
        }
    }
}

/// The non-zero causes, with their counts.
pub(super) fn by_cause(failures: &FailureCounts) -> BTreeMap<String, u64> {
    let occurred = failures.by_cause().into_iter().filter(|(_, count)| *count > 0);
    occurred.map(|(cause, count)| (cause.to_owned(), count)).collect()
}
