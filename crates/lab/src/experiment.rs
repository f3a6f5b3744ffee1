//! The trait of experiments and their common runner.
//!
//! In: an [`Experiment`], a [`Schedule`], an interrupt flag. Out: the experiment's document. It is concluded after
//! every trial, so an interrupt loses nothing.

use crate::document::{CpuShare, Document, TrialStatus};
use corelane_host::counters::CpuTimes;
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
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

    /// Measures one step and adds its raw trials to the document.
    ///
    /// # Errors
    /// If nothing could be measured.
    fn trial(&mut self, trying: &mut Trying<'_>, document: &mut Self::Document) -> anyhow::Result<()>;

    /// The list in the document that has the raw trials of a step. The runner marks trials there that are spoilt or
    /// were cut by an interrupt, and adds those that failed.
    fn raw<'a>(&self, step: usize, document: &'a mut Self::Document) -> &'a mut dyn RawTrials;

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
    interrupt: &'a AtomicBool,
    stops_early: bool,
    clocked: Option<(CpuTimes, CpuTimes)>,
}

impl<'a> Trying<'a> {
    /// The interrupt flag, for a measurement that stops early once it is set. Such a trial is then no result.
    pub fn interrupt(&mut self) -> &'a AtomicBool {
        self.stops_early = true;
        self.interrupt
    }

    /// A trial of this turn that measured for so many seconds.
    pub(crate) fn tried(&self, duration_s: f64) -> Tried {
        Tried::new(self.turn.step, self.turn.round, duration_s)
    }

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

    /// Whether the trial was cut by an interrupt.
    pub(crate) fn is_cut(&self) -> bool {
        self.stops_early && self.interrupt.load(Ordering::Relaxed)
    }

    /// The status of the trial and the reason, if it is no result although it was measured.
    fn set_aside(&self, schedule: &Schedule) -> Option<(TrialStatus, String)> {
        if self.is_cut() {
            return Some((TrialStatus::Interrupted, "ended early".to_owned()));
        }
        let (begun, ended) = self.clocked.as_ref()?;
        Some((TrialStatus::Spoilt, spoilt(schedule.max_steal, begun, ended)?))
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
    /// A schedule of trials that measure no time: what other machines use of the CPUs cannot spoil them.
    #[must_use]
    pub const fn untimed(rounds: u32, seed: u64) -> Self {
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
/// If the first trial fails. Later failures are recorded in the document.
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
            interrupt,
            stops_early: false,
            clocked: None,
        };
        let measured = experiment.trial(&mut trying, &mut document);
        let title = experiment.title(turn.step, &document);
        let raw = experiment.raw(turn.step, &mut document);
        let set_aside = trying.set_aside(&schedule);
        let is_spoilt = match (measured, set_aside) {
            (Err(error), _) if done == 0 => return Err(error),
            (Err(error), _) => {
                let mut tried = trying.tried(0.0);
                tried.end(TrialStatus::Failed, error.to_string());
                raw.fail(tried, &title);
                false
            }
            (Ok(()), Some((status, why))) => raw.end(turn, status, &why) && status == TrialStatus::Spoilt,
            (Ok(()), None) => false,
        };
        done += 1;
        document.head_mut().interrupted = done < of;
        experiment.conclude(&mut document);
        on_progress(&Progress {
            done,
            of,
            what: &title,
            document: &document,
        });
        Ok(is_spoilt)
    })?;
    document.head_mut().interrupted = interrupted;
    experiment.conclude(&mut document);
    Ok(document)
}

/// Runs every trial, in a random order per round, until `interrupt` is set; returns whether it was set. `run_trial`
/// returns whether the trial is spoilt.
fn in_order<E>(
    schedule: Schedule,
    steps: usize,
    interrupt: &AtomicBool,
    mut run_trial: impl FnMut(Turn, usize) -> Result<bool, E>,
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
                if run_trial(Turn { step, round }, of)? {
                    spoilt.push(step);
                    of += usize::from(repeat < MOST_REPEATS);
                }
            }
            turns = spoilt;
        }
    }
    Ok(interrupt.load(Ordering::Relaxed))
}

/// A raw trial of a document; implemented by `trial!`.
pub trait Trial: fmt::Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + 'static {
    /// A trial that counted nothing, to be filled in.
    #[must_use]
    fn new(tried: Tried) -> Self {
        let mut trial = Self::default();
        *trial.tried_mut() = tried;
        trial
    }

    /// The common fields.
    fn tried(&self) -> &Tried;

    /// The common fields, mutable.
    fn tried_mut(&mut self) -> &mut Tried;

    /// Sets the field that names what was tried, in a trial that failed; `title` is that of its step.
    fn name(&mut self, _title: &str) {}

    /// CPU time shares of the trial.
    fn cpu_shares(&self) -> &[CpuShare] {
        &[]
    }
}

/// Makes a type with a field `tried` a raw trial; in a failed one, the field `named` has the title of the step.
macro_rules! trial {
    ($trial:ty, named: $field:ident) => {
        $crate::experiment::trial!(
            $trial,
            fn name(&mut self, title: &str) {
                title.clone_into(&mut self.$field);
            }
        );
    };
    ($trial:ty $(, $($more:tt)+)?) => {
        impl $crate::experiment::Trial for $trial {
            fn tried(&self) -> &$crate::experiment::Tried {
                &self.tried
            }

            fn tried_mut(&mut self) -> &mut $crate::experiment::Tried {
                &mut self.tried
            }

            $($($more)+)?
        }
    };
}
pub(crate) use trial;

/// The raw trials of one kind in a document.
pub trait RawTrials {
    /// Adds a trial that failed, of the step of this title.
    fn fail(&mut self, tried: Tried, title: &str);

    /// Sets the status of the trials of a turn that are results; returns whether there are any.
    fn end(&mut self, turn: Turn, status: TrialStatus, why: &str) -> bool;
}

impl<T: Trial> RawTrials for Vec<T> {
    fn fail(&mut self, tried: Tried, title: &str) {
        let mut trial = T::new(tried);
        trial.name(title);
        self.push(trial);
    }

    fn end(&mut self, turn: Turn, status: TrialStatus, why: &str) -> bool {
        let mut any = false;
        for tried in self.iter_mut().map(T::tried_mut) {
            let measured = matches!(tried.status, TrialStatus::Valid | TrialStatus::GeneratorLimited);
            if measured && (tried.step, tried.round) == (turn.step, turn.round) {
                tried.end(status, why);
                any = true;
            }
        }
        any
    }
}

/// What every trial says of itself, flattened into its document. A field that an earlier version did not write has its
/// default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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

    /// Whether the trial is a result. Earlier versions wrote a reason, and no status, if it is not.
    pub(crate) fn is_result(&self) -> bool {
        self.status == TrialStatus::Valid && self.why.is_none()
    }

    /// Whether the trial is a result, of some time.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_result() && self.duration_s > 0.0
    }

    /// A count as a rate a second.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::{EnginesReport, UdpTrial};
    use corelane_host::counters::CpuTime;
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
            Ok::<_, Infallible>(false)
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
            Ok::<_, Infallible>(false)
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
            Ok::<_, Infallible>(is_spoilt)
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
        let spoilt =
            |idle_ns: u64, steal_ns: u64| spoilt(0.1, &times(100, 50), &times(100 + idle_ns, 50 + steal_ns));
        let why = "11.0 % of CPU time was stolen, and --max-steal is 10.0 %";
        assert_eq!(spoilt(89, 11).as_deref(), Some(why));
        assert_eq!(spoilt(90, 10), None);
        assert_eq!(spoilt(0, 0), None);
    }

    /// Four steps, tried in the order 3, 2, 1, 0 within the only round: one that is measured, one that fails, one whose
    /// first trial is spoilt, and one that an interrupt cuts.
    struct Fake {
        tries: usize,
    }

    impl Experiment for Fake {
        type Document = EnginesReport;

        fn plan(&self) -> anyhow::Result<Value> {
            Ok(Value::Null)
        }

        fn begin(&mut self) -> anyhow::Result<EnginesReport> {
            Ok(EnginesReport::default())
        }

        fn steps(&self) -> usize {
            4
        }

        fn title(&self, step: usize, _: &EnginesReport) -> String {
            format!("step {step}")
        }

        fn trial(&mut self, trying: &mut Trying<'_>, report: &mut EnginesReport) -> anyhow::Result<()> {
            self.tries += 1;
            let steal_ns = match self.tries {
                2 => anyhow::bail!("the server did not start"),
                3 => 50,
                _ => 0,
            };
            if self.tries == 5 {
                trying.interrupt().store(true, Ordering::Relaxed);
            }
            trying.clocked(&times(0, 0), &times(50, steal_ns));
            report.udp_trials.push(UdpTrial {
                tried: trying.tried(1.0),
                ..UdpTrial::default()
            });
            Ok(())
        }

        fn raw<'a>(&self, _: usize, report: &'a mut EnginesReport) -> &'a mut dyn RawTrials {
            &mut report.udp_trials
        }

        fn conclude(&self, _: &mut EnginesReport) {}
    }

    fn times(idle_ns: u64, steal_ns: u64) -> CpuTimes {
        let time = CpuTime {
            idle_ns,
            steal_ns,
            ..CpuTime::default()
        };
        CpuTimes {
            cpus: BTreeMap::from([(0, time)]),
        }
    }

    #[test]
    fn every_experiment_keeps_its_failed_spoilt_and_interrupted_trials_with_their_status() {
        let (mut fake, interrupt) = (Fake { tries: 0 }, AtomicBool::new(false));
        let schedule = Schedule {
            rounds: 1,
            ..SCHEDULE
        };
        let report = run(&mut fake, EnginesReport::default(), schedule, &interrupt, |_| ()).unwrap();
        let ended: Vec<_> = report.udp_trials.iter().map(|trial| trial.tried.status).collect();
        assert_eq!(
            ended,
            [
                TrialStatus::Valid,
                TrialStatus::Failed,
                TrialStatus::Spoilt,
                TrialStatus::Valid,
                TrialStatus::Interrupted,
            ]
        );
        let failed = &report.udp_trials[1];
        assert_eq!(failed.tried.why.as_deref(), Some("the server did not start"));
        assert_eq!(failed.name, format!("step {}", failed.tried.step));
        assert_eq!(report.udp_trials[4].tried.step, report.udp_trials[2].tried.step);
        assert!(report.head.interrupted);
    }

    #[test]
    fn a_trial_that_does_not_stop_early_is_a_result_in_spite_of_an_interrupt() {
        let interrupt = AtomicBool::new(true);
        let turn = Turn { step: 0, round: 0 };
        let mut trying = Trying {
            turn,
            interrupt: &interrupt,
            stops_early: false,
            clocked: None,
        };
        assert_eq!(trying.set_aside(&SCHEDULE), None);
        trying.interrupt();
        assert_eq!(
            trying.set_aside(&SCHEDULE).map(|(status, _)| status),
            Some(TrialStatus::Interrupted)
        );
    }
}
