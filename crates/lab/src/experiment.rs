//! The trait of experiments and their common runner.
//!
//! In: an [`Experiment`], a [`Schedule`], an interrupt flag. Out: the experiment's document. It is concluded after
//! every trial, so an interrupt loses nothing.

use crate::document::{Document, TrialStatus};
use corelane_host::counters::CpuTimes;
use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest number of repeats of a trial that another machine spoilt.
const MOST_REPEATS: usize = 3;

/// An experiment. Its steps are data, a trial measures one step, and the conclusion is a pure function of the trials.
pub trait Experiment {
    /// The document.
    type Document: Document;

    /// The plan, as `--dry-run` prints it.
    ///
    /// # Errors
    /// If the request cannot be carried out.
    fn plan(&self) -> anyhow::Result<Value>;

    /// Creates the document before the first measurement, and prepares expensive data such as large tables.
    ///
    /// # Errors
    /// If the request cannot be carried out.
    fn begin(&mut self) -> anyhow::Result<Self::Document>;

    /// The number of steps. Each is measured once per round.
    fn steps(&self) -> usize;

    /// A short description of a step.
    fn title(&self, step: usize, document: &Self::Document) -> String;

    /// Measures one step and records the trial in the document.
    ///
    /// # Errors
    /// If nothing could be measured.
    fn trial(
        &mut self,
        trying: &mut Trying<'_>,
        document: &mut Self::Document,
    ) -> anyhow::Result<TrialStatus>;

    /// Records a failed trial. An error that cannot be recorded ends the run; so does any failure of the first trial.
    ///
    /// # Errors
    /// The error, if it ends the run.
    fn failed(
        &self,
        _turn: Turn,
        error: anyhow::Error,
        _document: &mut Self::Document,
    ) -> anyhow::Result<()> {
        Err(error)
    }

    /// Marks the last trial as spoilt.
    fn spoil(&self, _turn: Turn, _why: String, _document: &mut Self::Document) {}

    /// Concludes from the trials so far.
    fn conclude(&self, document: &mut Self::Document);
}

/// The position of one trial in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The step.
    pub step: usize,
    /// The round, from 0.
    pub round: usize,
}

/// A running trial.
pub struct Trying<'a> {
    /// Which.
    pub turn: Turn,
    /// Whether any earlier trial had a result.
    pub first: bool,
    /// The interrupt flag.
    pub interrupt: &'a AtomicBool,
    clocked: Option<(CpuTimes, CpuTimes)>,
}

impl Trying<'_> {
    /// The CPU readings before and after the measurement; the steal time between them is limited.
    pub fn clocked(&mut self, begun: &CpuTimes, ended: &CpuTimes) {
        self.clocked = Some((begun.clone(), ended.clone()));
    }

    /// Measures, and reads the CPU times before and after. If they cannot be read, steal time is unknown.
    pub fn clock<T>(&mut self, measure: impl FnOnce() -> T) -> T {
        let begun = CpuTimes::read();
        let measured = measure();
        if let (Ok(begun), Ok(ended)) = (begun, CpuTimes::read()) {
            self.clocked(&begun, &ended);
        }
        measured
    }

    /// Whether the run is interrupted.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Returns the reason if the trial is spoilt: another machine on the same hardware used more than `most` of the CPU
    /// time.
    fn spoilt(&self, most: f64) -> Option<String> {
        let (begun, ended) = self.clocked.as_ref()?;
        spoilt(most, begun, ended)
    }
}

/// Returns the reason if a trial between `earlier` and `later` is spoilt: another machine on the same hardware used
/// more than the share `most` of its CPUs.
fn spoilt(most: f64, earlier: &CpuTimes, later: &CpuTimes) -> Option<String> {
    let share = later.since(earlier).total().steal_share()?;
    (share > most).then(|| {
        let (share, most) = (quantity::percent(share), quantity::percent(most));
        format!("{share} of CPU time was stolen, and --max-steal is {most}")
    })
}

/// The progress of a run.
pub struct Progress<'a, D> {
    /// Trials done.
    pub done: usize,
    /// Total trials.
    pub of: usize,
    /// The step just measured.
    pub what: &'a str,
    /// The document so far.
    pub document: &'a D,
}

/// The schedule of trials.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Trials of each step.
    pub rounds: usize,
    /// Seed of the order within each round.
    pub seed: u64,
    /// Largest share of CPU time that other machines on the same hardware may use in a trial; above it the trial is
    /// spoilt.
    pub max_steal: f64,
}

impl Schedule {
    /// A schedule of trials that no other machine can spoil.
    #[must_use]
    pub const fn unguarded(rounds: u32, seed: u64) -> Self {
        Self {
            rounds: rounds as usize,
            seed,
            max_steal: 1.0,
        }
    }
}

/// Runs all trials of a started experiment until `interrupt` is set. A trial spoilt by another machine is repeated at
/// the end of its round, at most [`MOST_REPEATS`] times.
///
/// # Errors
/// If the first trial fails, or a later failure cannot be recorded.
pub fn run<E: Experiment>(
    experiment: &mut E,
    mut document: E::Document,
    schedule: Schedule,
    interrupt: &AtomicBool,
    mut on_progress: impl FnMut(&Progress<'_, E::Document>),
) -> anyhow::Result<E::Document> {
    experiment.conclude(&mut document);
    let mut done = 0;
    let interrupted = in_order(schedule, experiment.steps(), interrupt, |turn, of| {
        let mut trying = Trying {
            turn,
            first: done == 0,
            interrupt,
            clocked: None,
        };
        let mut status = match experiment.trial(&mut trying, &mut document) {
            Ok(status) => status,
            Err(error) if done == 0 => return Err(error),
            Err(error) => {
                experiment.failed(turn, error, &mut document)?;
                TrialStatus::Failed
            }
        };
        let measured = matches!(status, TrialStatus::Valid | TrialStatus::GeneratorLimited);
        if let Some(why) = trying.spoilt(schedule.max_steal).filter(|_| measured) {
            experiment.spoil(turn, why, &mut document);
            status = TrialStatus::Spoilt;
        }
        done += 1;
        document.head_mut().interrupted = done < of;
        experiment.conclude(&mut document);
        on_progress(&Progress {
            done,
            of,
            what: &experiment.title(turn.step, &document),
            document: &document,
        });
        Ok(status)
    })?;
    document.head_mut().interrupted = interrupted;
    experiment.conclude(&mut document);
    Ok(document)
}

/// Runs every trial, in a random order per round, until `interrupt` is set; returns whether it was set.
fn in_order<E>(
    schedule: Schedule,
    steps: usize,
    interrupt: &AtomicBool,
    mut run_trial: impl FnMut(Turn, usize) -> Result<TrialStatus, E>,
) -> Result<bool, E> {
    let mut order = fastrand::Rng::with_seed(schedule.seed);
    let mut of = schedule.rounds * steps;
    for round in 0..schedule.rounds {
        let mut turns: Vec<usize> = (0..steps).collect();
        order.shuffle(&mut turns);
        for repeat in 0..=MOST_REPEATS {
            let mut spoilt = Vec::new();
            for step in turns {
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                if run_trial(Turn { step, round }, of)? == TrialStatus::Spoilt {
                    spoilt.push(step);
                    of += usize::from(repeat < MOST_REPEATS);
                }
            }
            turns = spoilt;
        }
    }
    Ok(interrupt.load(Ordering::Relaxed))
}

/// What every trial says of itself, flattened into its document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Index of the step in the document.
    pub step: usize,
    /// The round, from 0: trials of one round ran next to each other.
    pub round: usize,
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Whether the numbers may be used.
    pub status: TrialStatus,
    /// Why not.
    pub why: Option<String>,
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

impl Tried {
    /// A valid trial of so many seconds.
    #[must_use]
    pub fn new(step: usize, round: usize, duration_s: f64) -> Self {
        Self {
            step,
            round,
            duration_s,
            ..Self::default()
        }
    }

    /// Marks how it ended, and why.
    pub fn end(&mut self, status: TrialStatus, why: impl Into<String>) {
        (self.status, self.why) = (status, Some(why.into()));
    }

    /// Records why a field is null.
    pub(crate) fn explain(&mut self, field: &str, reason: impl Into<String>) {
        self.unknown.insert(field.to_owned(), reason.into());
    }

    /// Whether the numbers may be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.status == TrialStatus::Valid && self.duration_s > 0.0
    }

    /// A count as a rate a second.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_host::counters::{CpuTime, TimeOfCpu};
    use std::convert::Infallible;

    const SCHEDULE: Schedule = Schedule {
        rounds: 2,
        max_steal: 0.1,
        seed: 1,
    };

    #[test]
    fn every_step_is_tried_once_a_round_in_the_seeds_order() {
        let mut tried = [Vec::new(), Vec::new()];
        let interrupted = in_order(SCHEDULE, 5, &AtomicBool::new(false), |turn, _| {
            tried[turn.round].push(turn.step);
            Ok::<_, Infallible>(TrialStatus::Failed)
        });
        assert_eq!(interrupted, Ok(false));
        // The same seed always gives the same order.
        assert_eq!(tried, [[3, 2, 1, 4, 0], [1, 0, 2, 3, 4]]);
    }

    #[test]
    fn nothing_is_tried_after_an_interrupt() {
        let (interrupt, mut tried) = (AtomicBool::new(false), 0);
        let interrupted = in_order(SCHEDULE, 5, &interrupt, |_, _| {
            tried += 1;
            interrupt.store(tried == 3, Ordering::Relaxed);
            Ok::<_, Infallible>(TrialStatus::Valid)
        });
        assert_eq!((interrupted, tried), (Ok(true), 3));
    }

    #[test]
    fn what_was_spoilt_has_its_turn_again_when_the_round_is_through() {
        let mut turns = Vec::new();
        let interrupted = in_order(SCHEDULE, 5, &AtomicBool::new(false), |turn, _| {
            turns.push((turn.round, turn.step));
            // Step 1 is disturbed twice in each round, and step 3 of the first round every time.
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
