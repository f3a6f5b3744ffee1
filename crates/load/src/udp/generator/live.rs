//! What an observer sees of a running worker: counters at any time, a snapshot of the rest on request.

use super::Generator;
use crate::live::Snapshot;
use crate::udp::document::Counts;
use crate::udp::metrics::LiveDatagrams;
use crate::udp::protocol::DatagramProtocol;
use corelane_worker::engine::{FailureCounts, Ops};
use std::collections::BTreeMap;

impl<P: DatagramProtocol> Generator<P> {
    pub(in crate::udp) fn publish(&self, ops: &Ops) {
        let live = &self.live[self.place];
        live.counts.sent.set(ops.counters().sent);
        live.counts.returned.set(self.tally.counts.returned);
        live.snapshot.publish(|| self.snapshot(ops));
    }

    /// The live data of this worker.
    pub(super) fn snapshot(&self, ops: &Ops) -> Snapshot {
        let counters = ops.counters();
        let counts = Counts {
            refused: by_cause(&counters.send_failed),
            network_errors: by_cause(&counters.errors),
            ..self.tally.counts.clone()
        };
        Snapshot {
            errors: counts.errors_by_name(),
            times: self.tally.round_trip.clone(),
            ..Snapshot::of(LiveDatagrams::ALL, &self.live[self.place].counts)
        }
    }
}

/// The non-zero causes, with their counts.
pub(super) fn by_cause(failures: &FailureCounts) -> BTreeMap<String, u64> {
    let occurred = failures.by_cause().into_iter().filter(|(_, count)| *count > 0);
    occurred
        .map(|(cause, count)| (cause.name().to_owned(), count))
        .collect()
}
