//! Live data of a worker beyond its counters, collected only on request.
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
pub struct Seen {
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
pub struct Live<C> {
    pub(crate) cpu: u32,
    /// Its counts.
    pub counts: C,
    /// 1 once it has sent its last datagram or request; for transfers, once their last bytes have arrived.
    pub(crate) draining: Counter,
    pub(crate) shown: Showing,
}

/// What all workers publish, by place.
pub type Lives<C> = Arc<[CachePadded<Live<C>>]>;

/// The live data of workers on these CPUs, before they start.
pub(crate) fn lives<C: Default>(cpus: impl Iterator<Item = u32>) -> Lives<C> {
    let live = |cpu| Live {
        cpu,
        counts: C::default(),
        draining: Counter::new(),
        shown: Showing::default(),
    };
    cpus.map(|cpu| CachePadded::new(live(cpu))).collect()
}

/// Whether every worker has sent its last.
pub(crate) fn are_draining<C>(lives: &Lives<C>) -> bool {
    lives.iter().all(|live| live.draining.get() > 0)
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

impl Seen {
    /// The counts of a worker now.
    pub(crate) fn of<C>(counted: &[Metric<C>], counts: &C) -> Self {
        let mut seen = Self {
            at: Time::now(),
            ..Self::default()
        };
        for metric in counted {
            let counted = match is_total(metric) {
                true => &mut seen.counts,
                false => &mut seen.levels,
            };
            counted.insert(short_name(metric), count(metric, counts));
        }
        seen
    }

    /// The merged data of all workers.
    pub(crate) fn sum(workers: impl Iterator<Item = Self>) -> Self {
        workers.fold(Self::default(), |mut sum, seen| {
            sum.at = sum.at.max(seen.at);
            sum.counts.add(&seen.counts);
            sum.levels.add(&seen.levels);
            sum.errors.add(&seen.errors);
            sum.failures.add(&seen.failures);
            sum.not_opened.add(&seen.not_opened);
            sum.times.merge(&seen.times);
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
pub struct Showing {
    asked: AtomicBool,
    ended: AtomicBool,
    last: Mutex<Seen>,
}

impl Showing {
    /// Requests a snapshot.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a requested snapshot is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed)
    }

    /// The last snapshot.
    pub(crate) fn last(&self) -> Seen {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a snapshot if one was requested. If the last one is being read right now, the next turn does.
    pub(crate) fn show(&self, seen: impl FnOnce() -> Seen) {
        if !self.asked.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut last) = self.last.try_lock() {
            *last = seen();
            self.asked.store(false, Ordering::Relaxed);
        }
    }

    /// Leaves the final state: the worker makes no more snapshots.
    pub(crate) fn end(&self, seen: Seen) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        self.ended.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_made_once_a_request_and_at_the_end() {
        let (showing, mut made) = (Showing::default(), 0);
        let mut turn = || {
            showing.show(|| {
                made += 1;
                Seen {
                    counts: BTreeMap::from([("made", made)]),
                    ..Seen::default()
                }
            });
        };
        turn();
        assert_eq!(showing.last().counts.len(), 0, "nothing was requested");
        showing.ask();
        assert!(showing.is_awaited());
        turn();
        turn();
        assert!(!showing.is_awaited());
        assert_eq!((showing.last().counts["made"], made), (1, 1));
        showing.ask();
        showing.end(Seen {
            counts: BTreeMap::from([("made", 7)]),
            ..Seen::default()
        });
        assert_eq!((showing.is_awaited(), showing.last().counts["made"]), (false, 7));
    }
}
