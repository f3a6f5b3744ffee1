//! What a worker shows of itself when somebody watches: more than counters hold, and made only when it was asked for.
//!
//! In: a question, from the one who watches. Out: the answer, as of the worker's next turn. Neither waits for the other.

use crate::failure::Failures;
use corelane_measure::histogram::{Histogram, Summary};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What one worker of a generator shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// How long what it measures took: answers, round trips, or opening connections.
    pub(crate) times: Histogram,
    /// What failed that was under way.
    pub(crate) failures: Failures,
    /// Attempts to open a connection that failed.
    pub(crate) not_opened: Failures,
}

/// What a whole generator shows while it runs, as of its workers' last turns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// How long it took so far: answers from their intended start, round trips, or opening connections.
    pub times: Option<Summary>,
    /// What failed that was under way: requests, or connections.
    pub failures: Failures,
    /// Attempts to open a connection that failed.
    pub not_opened: Failures,
}

impl Seen {
    /// What all workers show together.
    pub(crate) fn sum(workers: impl Iterator<Item = Shown>) -> Self {
        let (mut seen, mut times) = (Self::default(), Histogram::new());
        for shown in workers {
            seen.failures.add(&shown.failures);
            seen.not_opened.add(&shown.not_opened);
            times.merge(&shown.times);
        }
        seen.times = times.summary();
        seen
    }
}

/// A question and its last answer, between one worker and one who watches it.
#[derive(Debug, Default)]
pub(crate) struct Showing<T> {
    asked: AtomicBool,
    answer: Mutex<T>,
}

impl<T: Clone> Showing<T> {
    /// The last answer; asks for the next one.
    pub(crate) fn look(&self) -> T {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.store(true, Ordering::Relaxed);
        answer.clone()
    }

    /// Answers when that was asked for. Where the last answer is just being read, the next turn does.
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
        assert_eq!(showing.look(), 0, "nobody had asked before");
        turn();
        turn();
        assert_eq!([showing.look(), made], [1, 1]);
    }
}
