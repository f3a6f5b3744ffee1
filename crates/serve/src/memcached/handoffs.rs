//! What handing over costs: the time of some requests, one at a time, and what the mailboxes refused.

use super::counters::Handoffs;
use corelane_worker::Time;

/// Of so many requests that are handed over one is timed: reading the clock twice costs as much as handing one over.
const TIMED: u32 = 64;

/// Measures handoffs, whose answers go to a place.
pub(super) struct Measured<P> {
    pub(super) handoffs: Handoffs,
    /// How full a mailbox was at most, in percent.
    pub(super) queue_percent: u64,
    /// The request that is timed, and when it was handed over.
    timed: Option<(P, Time)>,
    since_timed: u32,
}

impl<P> Default for Measured<P> {
    fn default() -> Self {
        Self {
            handoffs: Handoffs::default(),
            queue_percent: 0,
            timed: None,
            since_timed: 0,
        }
    }
}

impl<P: PartialEq> Measured<P> {
    /// A request was handed over.
    #[inline]
    pub(super) fn asked(&mut self, place: P) {
        self.since_timed += 1;
        if self.since_timed >= TIMED && self.timed.is_none() {
            self.since_timed = 0;
            self.timed = Some((place, Time::now()));
        }
    }

    /// An answer is complete.
    #[inline]
    pub(super) fn answered(&mut self, place: P) {
        if let Some((_, since)) = self.timed.take_if(|(timed, _)| *timed == place) {
            self.handoffs.handoffs_timed += 1;
            self.handoffs.handoffs_timed_ns += Time::now().since(since).as_nanos() as u64;
        }
    }
}
