//! When to send: as fast as possible, a window of unanswered datagrams, or a schedule fixed in advance.

use corelane_worker::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a generator sends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the machine allows.
    Flood,
    /// Keep so many datagrams of each socket unanswered.
    Window {
        /// Unanswered datagrams a socket.
        datagrams: u32,
    },
    /// Open loop: so many a second over all workers, at times fixed in advance.
    Rate {
        /// Datagrams a second.
        per_second: f64,
    },
}

/// One worker's share of an open-loop schedule: its `k`-th datagram is due at a time that depends on nothing measured.
#[derive(Debug, Clone)]
pub struct Schedule {
    start: Time,
    interval_ns: f64,
    offset: f64,
    issued: u64,
}

impl Schedule {
    /// The schedule of worker `worker` of `workers`, which together send `per_second` from `start` on. Workers take
    /// turns: together their due times are evenly spaced.
    #[must_use]
    pub fn new(start: Time, per_second: f64, worker: usize, workers: usize) -> Self {
        let workers = workers.max(1) as f64;
        Self {
            start,
            interval_ns: 1e9 * workers / per_second,
            offset: worker as f64 / workers,
            issued: 0,
        }
    }

    /// When the next datagram is due.
    #[must_use]
    pub fn due(&self) -> Time {
        self.start + Duration::from_nanos(((self.issued as f64 + self.offset) * self.interval_ns) as u64)
    }

    /// Notes that the due datagram was issued.
    pub fn advance(&mut self) {
        self.issued += 1;
    }

    /// Datagrams due before `end` and not issued.
    #[must_use]
    pub fn unissued_before(&self, end: Time) -> u64 {
        let elapsed = end.since(self.start).as_nanos() as f64;
        let due = (elapsed / self.interval_ns - self.offset).ceil().max(0.0) as u64;
        due.saturating_sub(self.issued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_workers_are_evenly_spaced_together() {
        let start = Time::now();
        let mut due = Vec::new();
        for worker in 0..3 {
            let mut schedule = Schedule::new(start, 1_000_000.0, worker, 3);
            for _ in 0..100 {
                due.push(schedule.due().since(start).as_nanos());
                schedule.advance();
            }
        }
        due.sort_unstable();
        let expected: Vec<u128> = (0..300).map(|index| index * 1000).collect();
        assert!(
            due.iter()
                .zip(&expected)
                .all(|(due, expected)| due.abs_diff(*expected) <= 1),
            "{due:?}"
        );
    }

    #[test]
    fn what_was_due_and_not_issued_is_counted() {
        let start = Time::now();
        let mut schedule = Schedule::new(start, 1000.0, 0, 1);
        let end = start + Duration::from_millis(10);
        assert_eq!(schedule.unissued_before(end), 10);
        (0..7).for_each(|_| schedule.advance());
        assert_eq!(schedule.unissued_before(end), 3);
    }
}
