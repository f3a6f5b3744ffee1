//! What an observer sees of a running worker: counters at any time, a snapshot of the rest on request.

use super::Generator;
use crate::showing::{Seen, Showing};
use crate::udp::loaded::Counts;
use crate::udp::protocol::DatagramProtocol;
use corelane_worker::engine::{FailureCounts, Ops};
use corelane_worker::{CachePadded, Counter, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Live counters of a worker, readable by any thread.
#[derive(Debug, Default)]
pub(in crate::udp) struct LiveCounters {
    pub(in crate::udp) sent: Counter,
    pub(in crate::udp) returned: Counter,
    /// 1 once sending has ended.
    pub(in crate::udp) sending_ended: Counter,
    pub(in crate::udp) shown: Showing,
}

/// Live counters of all workers, by place.
pub(in crate::udp) type Lives = Arc<[CachePadded<LiveCounters>]>;

impl<P: DatagramProtocol> Generator<P> {
    pub(in crate::udp) fn show(&self, ops: &Ops) {
        let live = &self.lives[self.place];
        live.sent.set(ops.counters().sent);
        live.returned.set(self.tally.counts.returned);
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
            at: Time::now(),
            counts: BTreeMap::from([("sent", counters.sent), ("returned", counts.returned)]),
            errors: counts.errors_by_name(),
            times: self.tally.round_trip.clone(),
            ..Seen::default()
        }
    }
}

/// The non-zero causes, with their counts.
pub(super) fn by_cause(failures: &FailureCounts) -> BTreeMap<String, u64> {
    let occurred = failures.by_cause().into_iter().filter(|(_, count)| *count > 0);
    occurred.map(|(cause, count)| (cause.to_owned(), count)).collect()
}
