//! Live data of a worker beyond its counters, collected only on request.
//!
//! In: a request from the observer. Out: a snapshot, made on the worker's next turn. Neither side waits for the other.

use crate::failure::Failures;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_worker::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Live data of one worker, or of a whole generator as of the last turn of each worker.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// When the data was collected; [`Time::default`] before the first snapshot.
    pub at: Time,
    /// Times so far: answers from their intended start, round trips, or connection setup.
    pub times: Histogram,
    /// Failures of requests or connections in progress.
    pub failures: Failures,
    /// Failed attempts to open a connection.
    pub not_opened: Failures,
}

impl Seen {
    /// The merged data of all workers.
    pub(crate) fn sum(workers: impl Iterator<Item = Self>) -> Self {
        workers.fold(Self::default(), |mut sum, seen| {
            sum.at = sum.at.max(seen.at);
            sum.failures.add(&seen.failures);
            sum.not_opened.add(&seen.not_opened);
            sum.times.merge(&seen.times);
            sum
        })
    }
}

/// A request flag and the last snapshot, shared between one worker and one observer.
#[derive(Debug, Default)]
pub(crate) struct Showing<T> {
    asked: AtomicBool,
    answer: Mutex<T>,
}

impl<T: Clone> Showing<T> {
    /// The last snapshot; requests the next one.
    pub(crate) fn look(&self) -> T {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.store(true, Ordering::Relaxed);
        answer.clone()
    }

    /// Makes a snapshot if one was requested. If the last one is being read right now, the next turn does.
    pub(crate) fn show(&self, answer: impl FnOnce() -> T) {
        if !self.asked.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut last) = self.answer.try_lock() {
            self.asked.store(false, Ordering::Relaxed);
            *last = answer();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_made_once_a_question() {
        let (showing, mut made) = (Showing::<u64>::default(), 0);
        let mut turn = || {
            showing.show(|| {
                made += 1;
                made
            });
        };
        turn();
        assert_eq!(showing.look(), 0, "the first look requests the value");
        turn();
        turn();
        assert_eq!([showing.look(), made], [1, 1]);
    }
}
