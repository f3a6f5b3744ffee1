//! What a worker publishes while it runs: its counters at any time, a snapshot of the rest only on request.
//!
//! In: a request from the observer. Out: a snapshot, made on the worker's next turn. Neither side waits for the other.

use crate::failure::Failures;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_worker::{CachePadded, Counter, Time};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Live data of one worker, or of a whole generator as of the last turn of each worker.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// When the data was collected; [`Time::default`] before the first snapshot.
    pub at: Time,
    /// What the generator does.
    pub stage: String,
    /// Events so far, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// What there is now, such as open connections.
    pub levels: BTreeMap<&'static str, u64>,
    /// Times so far: answers from their intended start, round trips, or connection setup.
    pub times: Histogram,
    /// Why there are no times, if so.
    pub no_times_because: Option<&'static str>,
    /// Events that are errors beside the failures below, by name; without those that did not occur.
    pub errors: BTreeMap<String, u64>,
    /// Failures of requests or connections in progress.
    pub failures: Failures,
    /// Failed attempts to open a connection.
    pub not_opened: Failures,
}

/// What a worker publishes while it runs.
#[derive(Debug)]
pub struct LiveWorker<C> {
    pub(crate) cpu: u32,
    /// Its counts.
    pub counts: C,
    /// 1 once it has sent its last datagram or request; for transfers, once their last bytes have arrived.
    pub(crate) draining: Counter,
    pub(crate) snapshot: SnapshotSlot,
}

/// What all workers publish, by place.
pub type LiveWorkers<C> = Arc<[CachePadded<LiveWorker<C>>]>;

/// The live data of workers on these CPUs, before they start.
pub(crate) fn workers<C: Default>(cpus: impl Iterator<Item = u32>) -> LiveWorkers<C> {
    let live = |cpu| LiveWorker {
        cpu,
        counts: C::default(),
        draining: Counter::new(),
        snapshot: SnapshotSlot::default(),
    };
    cpus.map(|cpu| CachePadded::new(live(cpu))).collect()
}

/// Whether it counts events; otherwise, what there is now.
pub(crate) fn is_total<C>(metric: &Metric<C>) -> bool {
    metric.name.ends_with("_total")
}

/// The name in timelines, without the unit except of bytes: `sent` of `sent_requests_total`, `sent_bytes` of
/// `sent_bytes_total`.
pub(crate) fn short_name<C>(metric: &Metric<C>) -> &'static str {
    let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
    let short = name
        .strip_suffix(metric.unit)
        .filter(|_| metric.show != Show::Bytes);
    short.map_or(name, |short| short.trim_end_matches('_'))
}

/// The count of one worker.
pub(crate) fn count<C>(metric: &Metric<C>, counts: &C) -> u64 {
    match metric.read.and_then(|read| read(counts)) {
        Some(Sample::Number(count)) => count as u64,
        _ => 0,
    }
}

/// The sum of a count over all workers.
pub(crate) fn total<C>(live: &LiveWorkers<C>, metric: &Metric<C>) -> u64 {
    live.iter().map(|live| count(metric, &live.counts)).sum()
}

impl Snapshot {
    /// The counts of a worker now.
    pub(crate) fn of<C>(counted: &[Metric<C>], counts: &C) -> Self {
        let mut snapshot = Self {
            at: Time::now(),
            ..Self::default()
        };
        for metric in counted {
            let counted = match is_total(metric) {
                true => &mut snapshot.counts,
                false => &mut snapshot.levels,
            };
            counted.insert(short_name(metric), count(metric, counts));
        }
        snapshot
    }

    /// The merged data of all workers.
    pub(crate) fn sum(workers: impl Iterator<Item = Self>) -> Self {
        workers.fold(Self::default(), |mut sum, snapshot| {
            sum.at = sum.at.max(snapshot.at);
            sum.counts.add(&snapshot.counts);
            sum.levels.add(&snapshot.levels);
            sum.errors.add(&snapshot.errors);
            sum.failures.add(&snapshot.failures);
            sum.not_opened.add(&snapshot.not_opened);
            sum.times.add(&snapshot.times);
            sum
        })
    }

    /// All errors so far by name.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = self.errors.clone();
        errors.add(&self.failures.named(""));
        errors.add(&self.not_opened.named("not_opened_"));
        errors
    }
}

/// A request flag and the last snapshot, shared between one worker and one observer.
#[derive(Debug, Default)]
pub struct SnapshotSlot {
    requested: AtomicBool,
    closed: AtomicBool,
    last: Mutex<Snapshot>,
}

impl SnapshotSlot {
    /// Requests a snapshot.
    pub(crate) fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether a requested snapshot is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        self.requested.load(Ordering::Relaxed) && !self.closed.load(Ordering::Relaxed)
    }

    /// The last snapshot.
    pub(crate) fn last(&self) -> Snapshot {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a snapshot if one was requested. If the last one is being read right now, the next turn does.
    pub(crate) fn publish(&self, snapshot: impl FnOnce() -> Snapshot) {
        if !self.requested.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut last) = self.last.try_lock() {
            *last = snapshot();
            self.requested.store(false, Ordering::Relaxed);
        }
    }

    /// Leaves the final state: the worker makes no more snapshots.
    pub(crate) fn close(&self, snapshot: Snapshot) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_made_once_a_request_and_at_the_end() {
        let (slot, mut made) = (SnapshotSlot::default(), 0);
        let mut turn = || {
            slot.publish(|| {
                made += 1;
                Snapshot {
                    counts: BTreeMap::from([("made", made)]),
                    ..Snapshot::default()
                }
            });
        };
        turn();
        assert_eq!(slot.last().counts.len(), 0, "nothing was requested");
        slot.request();
        assert!(slot.is_awaited());
        turn();
        turn();
        assert!(!slot.is_awaited());
        assert_eq!((slot.last().counts["made"], made), (1, 1));
        slot.request();
        slot.close(Snapshot {
            counts: BTreeMap::from([("made", 7)]),
            ..Snapshot::default()
        });
        assert_eq!((slot.is_awaited(), slot.last().counts["made"]), (false, 7));
    }
}
