//! What the runners of experiments have in common: trials in a seeded order, what is told meanwhile, and the head of a report.

use crate::document::Bed as ReportedBed;
use crate::document::Tool;
use crate::document::TrialStatus;
use corelane_host::bed::{Bed, BedKind};
use corelane_host::counters::CpuTimes;
use corelane_measure::quantity;
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

/// How often a trial has its turn again that another machine spoilt.
const MOST_REPEATS: usize = 3;

/// One trial's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) step: usize,
    pub(crate) round: usize,
    /// Trials in all, those included that have their turn again.
    pub(crate) of: usize,
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
    /// Trials in all, when none is spoilt.
    const fn trials(self) -> usize {
        self.rounds * self.steps
    }

    /// Gives every trial's turn to `run_trial`, which tells how it ended, until `interrupt` is set; tells whether it was.
    /// What another machine spoilt has its turn again when the round is through, [`MOST_REPEATS`] times at most.
    pub(crate) fn run<E>(
        self,
        interrupt: &AtomicBool,
        mut run_trial: impl FnMut(Turn) -> Result<TrialStatus, E>,
    ) -> Result<bool, E> {
        let mut order = fastrand::Rng::with_seed(self.seed);
        let mut of = self.trials();
        for round in 0..self.rounds {
            let mut steps: Vec<usize> = (0..self.steps).collect();
            order.shuffle(&mut steps);
            for repeat in 0..=MOST_REPEATS {
                let mut spoilt = Vec::new();
                for step in steps {
                    if interrupt.load(Ordering::Relaxed) {
                        return Ok(true);
                    }
                    if run_trial(Turn { step, round, of })? == TrialStatus::Spoilt {
                        spoilt.push(step);
                        of += usize::from(repeat < MOST_REPEATS);
                    }
                }
                steps = spoilt;
            }
        }
        Ok(interrupt.load(Ordering::Relaxed))
    }
}

/// Why a trial is no result whose CPUs counted from `earlier` to `later`: another machine on the same hardware had more of
/// them than `most`, a share.
pub(crate) fn spoilt(most: f64, earlier: &CpuTimes, later: &CpuTimes) -> Option<String> {
    let share = later.since(earlier).total().steal_share()?;
    (share > most).then(|| {
        let (share, most) = (quantity::percent(share), quantity::percent(most));
        format!("{share} of CPU time was stolen, and --max-steal is {most}")
    })
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
    use corelane_host::counters::{CpuTime, TimeOfCpu};
    use std::convert::Infallible;

    const SCHEDULE: Schedule = Schedule {
        rounds: 2,
        steps: 5,
        seed: 1,
    };

    #[test]
    fn every_step_is_tried_once_a_round_in_the_seeds_order() {
        let mut tried = [Vec::new(), Vec::new()];
        let interrupted = SCHEDULE.run(&AtomicBool::new(false), |turn| {
            tried[turn.round].push(turn.step);
            Ok::<_, Infallible>(TrialStatus::Failed)
        });
        assert_eq!(interrupted, Ok(false));
        // A seed that was given once gives the same order ever after.
        assert_eq!(tried, [[3, 2, 1, 4, 0], [1, 0, 2, 3, 4]]);
    }

    #[test]
    fn nothing_is_tried_after_an_interrupt() {
        let (interrupt, mut tried) = (AtomicBool::new(false), 0);
        let interrupted = SCHEDULE.run(&interrupt, |_| {
            tried += 1;
            interrupt.store(tried == 3, Ordering::Relaxed);
            Ok::<_, Infallible>(TrialStatus::Valid)
        });
        assert_eq!((interrupted, tried), (Ok(true), 3));
    }

    #[test]
    fn what_was_spoilt_has_its_turn_again_when_the_round_is_through() {
        let mut turns = Vec::new();
        let interrupted = SCHEDULE.run(&AtomicBool::new(false), |turn| {
            turns.push((turn.round, turn.step));
            // The first of each round is spoilt twice, and the first of all never anything else.
            let times = turns
                .iter()
                .filter(|earlier| **earlier == (turn.round, turn.step))
                .count();
            let is_spoilt = turn.step == 3 && turn.round == 0 || turn.step == 1 && times < 3;
            Ok::<_, Infallible>(if is_spoilt {
                TrialStatus::Spoilt
            } else {
                TrialStatus::Valid
            })
        });
        assert_eq!(interrupted, Ok(false));
        let rounds = [0, 1].map(|round| {
            let own = turns.iter().filter(move |turn| turn.0 == round);
            own.map(|turn| turn.1).collect::<Vec<_>>()
        });
        assert_eq!(
            rounds,
            [vec![3, 2, 1, 4, 0, 3, 1, 3, 1, 3], vec![1, 0, 2, 3, 4, 1, 1]]
        );
    }

    #[test]
    fn more_time_stolen_than_may_be_spoils_a_trial() {
        let times = |idle_ns: u64, steal_ns: u64| CpuTimes {
            cpus: vec![TimeOfCpu {
                cpu: 0,
                time: CpuTime {
                    idle_ns,
                    steal_ns,
                    ..CpuTime::default()
                },
            }],
            running_now: None,
        };
        let spoilt =
            |idle_ns: u64, steal_ns: u64| spoilt(0.1, &times(100, 50), &times(100 + idle_ns, 50 + steal_ns));
        let why = "11.0 % of CPU time was stolen, and --max-steal is 10.0 %";
        assert_eq!(spoilt(89, 11).as_deref(), Some(why));
        assert_eq!(spoilt(90, 10), None);
        assert_eq!(spoilt(0, 0), None);
    }
}
