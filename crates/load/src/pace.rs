//! When to send: as fast as possible, with a window of unanswered datagrams, or on a schedule fixed in advance.

use corelane_worker::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Sending mode of a generator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the machine allows.
    Flood,
    /// Keep this many datagrams of each socket unanswered.
    Window {
        /// Unanswered datagrams per socket.
        datagrams: u32,
    },
    /// Open loop: a rate over all workers, at times fixed in advance.
    Rate {
        /// Datagrams per second.
        per_second: f64,
    },
}

/// One worker's share of an open-loop schedule: the due time of its `k`-th request depends on nothing measured.
#[derive(Debug, Clone)]
pub struct Schedule {
    start: Time,
    /// This worker's own rate.
    ramp: Ramp,
    /// Offset of this worker's requests, as a fraction of its interval, so that all workers together are evenly spaced.
    offset: f64,
    issued: u64,
}

/// A rate that changes linearly from one value to another, then stays constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Initial rate per second.
    pub from: f64,
    /// Final rate per second, after [`over`](Self::over).
    pub to: f64,
    /// Duration of the change.
    pub over: Duration,
}

impl Schedule {
    /// The schedule of worker `worker` of `workers`, which together send `per_second` from `start` on. Workers take
    /// turns, so that their due times are evenly spaced.
    #[must_use]
    pub fn new(start: Time, per_second: f64, worker: usize, workers: usize) -> Self {
        Self::ramp(start, Ramp::steady(per_second), worker, workers)
    }

    /// Like [`new`](Self::new), with a rate that changes.
    #[must_use]
    pub fn ramp(start: Time, ramp: Ramp, worker: usize, workers: usize) -> Self {
        let workers = workers.max(1) as f64;
        Self {
            start,
            ramp: ramp.times(1.0 / workers),
            offset: worker as f64 / workers,
            issued: 0,
        }
    }

    /// When the next request is due; [`Time::NEVER`] once the rate has ended.
    #[must_use]
    pub fn due(&self) -> Time {
        let seconds = self.ramp.when(self.issued as f64 + self.offset);
        if seconds.is_finite() {
            self.start + Duration::from_nanos((seconds * 1e9) as u64)
        } else {
            Time::NEVER
        }
    }

    /// Records that the due request was issued.
    pub fn advance(&mut self) {
        self.issued += 1;
    }

    /// Requests due before `end` and not issued.
    #[must_use]
    pub fn unissued_before(&self, end: Time) -> u64 {
        let due = self.ramp.by(end.since(self.start).as_secs_f64()) - self.offset;
        let due = due.ceil().max(0.0) as u64;
        due.saturating_sub(self.issued)
    }
}

impl Ramp {
    /// A constant rate.
    #[must_use]
    pub const fn steady(per_second: f64) -> Self {
        Self {
            from: per_second,
            to: per_second,
            over: Duration::ZERO,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            from: self.from * factor,
            to: self.to * factor,
            over: self.over,
        }
    }

    /// Seconds from the start to the request with that number (from 0): the time at which the integral of the rate
    /// reaches the number.
    fn when(&self, number: f64) -> f64 {
        let over = self.over.as_secs_f64();
        let in_ramp = (self.from + self.to) / 2.0 * over;
        if number >= in_ramp {
            return over + (number - in_ramp) / self.to;
        }
        let slope = (self.to - self.from) / over;
        if slope == 0.0 {
            return number / self.from;
        }
        ((self.from * self.from + 2.0 * slope * number).max(0.0).sqrt() - self.from) / slope
    }

    /// Requests due within that many seconds from the start.
    fn by(&self, seconds: f64) -> f64 {
        let over = self.over.as_secs_f64();
        let within = seconds.min(over);
        let slope = if over > 0.0 {
            (self.to - self.from) / over
        } else {
            0.0
        };
        self.from * within + slope * within * within / 2.0 + self.to * (seconds - within)
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
    fn a_ramp_sends_what_lies_under_it_and_then_goes_on_at_its_end() {
        let start = Time::from_nanoseconds(0);
        for (from, to) in [(0.0, 1_000.0), (1_000.0, 0.0), (200.0, 800.0), (500.0, 500.0)] {
            let ramp = Ramp {
                from,
                to,
                over: Duration::from_secs(2),
            };
            let mut due = Vec::new();
            for worker in 0..2 {
                let mut schedule = Schedule::ramp(start, ramp, worker, 2);
                let end = start + Duration::from_secs(3);
                let expected = schedule.unissued_before(end);
                while schedule.due() < end {
                    due.push(schedule.due());
                    schedule.advance();
                }
                assert_eq!(schedule.unissued_before(end), 0, "{ramp:?}");
                assert_eq!(due.len() as u64 - expected * worker as u64, expected, "{ramp:?}");
            }
            due.sort_unstable();
            let in_ramp = due.iter().filter(|due| **due < start + ramp.over).count() as f64;
            assert!((in_ramp - (from + to)).abs() <= 2.0, "{ramp:?}: {in_ramp}");
            assert!(
                (due.len() as f64 - (from + to) - to).abs() <= 2.0,
                "{ramp:?}: {}",
                due.len()
            );
            let first = due
                .iter()
                .filter(|due| **due < start + Duration::from_secs(1))
                .count() as f64;
            assert!(
                (first - (from * 0.75 + to * 0.25)).abs() <= 2.0,
                "{ramp:?}: {first}"
            );
        }
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
