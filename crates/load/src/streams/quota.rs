//! The counts by which phases end, over all workers: exact, because each request is taken from the phase's number before it
//! begins.
//!
//! In: requests that begin, fail and end. Out: whether another may begin, and whether a phase is over. Shared by all workers,
//! and absent if no phase has a count.

use super::plan::PlannedPhase;
use corelane_worker::CachePadded;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The counts of all phases.
#[derive(Debug)]
pub(crate) struct Quotas {
    phases: Vec<CachePadded<Quota>>,
    /// Requests that were taken and whose end no worker has published, of any phase.
    under_way: CachePadded<AtomicU64>,
}

/// The counts of one phase, and the values at which they end it.
#[derive(Debug)]
struct Quota {
    begun: AtomicU64,
    requests: u64,
    failed: AtomicU64,
    failures: u64,
}

impl Quotas {
    /// The counts of these phases; `None` if no phase ends by one.
    pub(crate) fn of(phases: &[PlannedPhase]) -> Option<Self> {
        let quota = |phase: &PlannedPhase| Quota {
            begun: AtomicU64::new(0),
            requests: phase.until.requests.unwrap_or(u64::MAX),
            failed: AtomicU64::new(0),
            failures: phase.until.failures.unwrap_or(u64::MAX),
        };
        let counted = |phase: &PlannedPhase| phase.until.requests.is_some() || phase.until.failures.is_some();
        phases.iter().any(counted).then(|| Self {
            phases: phases.iter().map(quota).map(CachePadded::new).collect(),
            under_way: CachePadded::new(AtomicU64::new(0)),
        })
    }

    /// Takes a request of this phase; `false` if none may begin any more.
    pub(crate) fn take(&self, phase: usize) -> bool {
        // First, so that who finds the phase spent finds this request under way.
        self.under_way.fetch_add(1, SeqCst);
        let taken = self.phases.get(phase).is_some_and(|quota| quota.take());
        if !taken {
            self.ended(1);
        }
        taken
    }

    /// Whether no request of this phase may begin any more.
    pub(crate) fn is_spent(&self, phase: usize) -> bool {
        self.phases.get(phase).is_none_or(|quota| quota.is_spent())
    }

    /// A request failed in this phase.
    pub(crate) fn failed(&self, phase: usize) {
        if let Some(quota) = self.phases.get(phase) {
            quota.failed.fetch_add(1, SeqCst);
        }
    }

    /// So many requests have ended, and a worker has published their outcomes.
    pub(crate) fn ended(&self, requests: u64) {
        self.under_way.fetch_sub(requests, SeqCst);
    }

    /// Whether the phase is over by its counts: no request may begin, and all have ended.
    pub(crate) fn is_over(&self, phase: usize) -> bool {
        self.is_spent(phase) && self.under_way.load(SeqCst) == 0
    }

    /// Requests that began in this phase.
    pub(crate) fn begun(&self, phase: usize) -> Option<u64> {
        self.phases.get(phase).map(|quota| quota.begun.load(SeqCst))
    }
}

impl Quota {
    fn take(&self) -> bool {
        let next = |begun: u64| (begun < self.requests).then_some(begun + 1);
        !self.has_failed() && self.begun.fetch_update(SeqCst, SeqCst, next).is_ok()
    }

    fn is_spent(&self) -> bool {
        self.has_failed() || self.begun.load(SeqCst) >= self.requests
    }

    fn has_failed(&self) -> bool {
        self.failed.load(SeqCst) >= self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Until;

    fn quotas(requests: Option<u64>, failures: Option<u64>) -> Quotas {
        let until = Until {
            duration_s: None,
            requests,
            failures,
        };
        Quotas::of(&[PlannedPhase::hold(until)]).unwrap()
    }

    #[test]
    fn workers_together_take_as_many_as_there_are() {
        let quotas = quotas(Some(1_003), None);
        let taken = std::thread::scope(|scope| {
            let take = || (0..).take_while(|_: &u64| quotas.take(0)).count();
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!((taken, quotas.begun(0)), (1_003, Some(1_003)));
        quotas.ended(1_002);
        assert!(quotas.is_spent(0) && !quotas.is_over(0));
        quotas.ended(1);
        assert!(quotas.is_over(0));
    }

    #[test]
    fn none_begins_after_the_last_failure_and_none_after_the_last_phase() {
        let quotas = quotas(None, Some(2));
        assert!(quotas.take(0) && quotas.take(0) && quotas.take(0));
        quotas.failed(0);
        assert!(!quotas.is_spent(0));
        quotas.failed(0);
        assert!(quotas.is_spent(0) && !quotas.take(0) && !quotas.is_over(0));
        quotas.ended(3);
        assert!(quotas.is_over(0) && !quotas.take(1));
        assert!(Quotas::of(&[PlannedPhase::hold(Until::default())]).is_none());
    }
}
