//! What the runners of experiments have in common: trials in a seeded order, what is told meanwhile, and the head of a report.

use corelane_host::bed::{Bed, BedKind};
use corelane_report::scale::{Bed as ReportedBed, Tool};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a run tells while it goes on.
pub struct Moment<'a, Report> {
    /// Trials done.
    pub done: usize,
    /// Trials in all.
    pub of: usize,
    /// What was just measured.
    pub what: &'a str,
    /// Everything so far.
    pub report: &'a Report,
}

/// Which trials to run.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) rounds: usize,
    /// Each is tried once a round.
    pub(crate) steps: usize,
    /// Of the order within the rounds.
    pub(crate) seed: u64,
}

impl Schedule {
    /// Trials in all.
    pub(crate) const fn trials(self) -> usize {
        self.rounds * self.steps
    }

    /// Gives every trial's step and round to `run_trial` until `interrupt` is set; tells whether it was.
    pub(crate) fn run<E>(
        self,
        interrupt: &AtomicBool,
        mut run_trial: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut order = fastrand::Rng::with_seed(self.seed);
        for round in 0..self.rounds {
            let mut steps: Vec<usize> = (0..self.steps).collect();
            order.shuffle(&mut steps);
            for step in steps {
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                run_trial(step, round)?;
            }
        }
        Ok(interrupt.load(Ordering::Relaxed))
    }
}

/// This program, as reports name it.
pub(crate) fn tool(version: &str) -> Tool {
    Tool {
        name: "corelane".to_owned(),
        version: version.to_owned(),
    }
}

/// Seconds since 1970.
pub(crate) fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A bed as reports tell it.
#[must_use]
pub fn reported_bed(bed: &Bed) -> ReportedBed {
    let kind = match bed.kind() {
        BedKind::Namespaces => "namespaces",
        BedKind::UserNamespace => "user_namespace",
        BedKind::Loopback => "loopback",
    };
    ReportedBed {
        kind: kind.to_owned(),
        describe: bed.describe(),
        reason: bed.reason().map(str::to_owned),
    }
}

/// A plan or a report of a child as part of a document.
pub(crate) fn as_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "unknown_because": error.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const SCHEDULE: Schedule = Schedule {
        rounds: 2,
        steps: 5,
        seed: 1,
    };

    #[test]
    fn every_step_is_tried_once_a_round_in_the_seeds_order() {
        let mut tried = [Vec::new(), Vec::new()];
        let interrupted = SCHEDULE.run(&AtomicBool::new(false), |step, round| {
            tried[round].push(step);
            Ok::<(), Infallible>(())
        });
        assert_eq!(interrupted, Ok(false));
        // A seed that was given once gives the same order ever after.
        assert_eq!(tried, [[3, 2, 1, 4, 0], [1, 0, 2, 3, 4]]);
    }

    #[test]
    fn nothing_is_tried_after_an_interrupt() {
        let (interrupt, mut tried) = (AtomicBool::new(false), 0);
        let interrupted = SCHEDULE.run(&interrupt, |_, _| {
            tried += 1;
            interrupt.store(tried == 3, Ordering::Relaxed);
            Ok::<(), Infallible>(())
        });
        assert_eq!((interrupted, tried), (Ok(true), 3));
    }
}
