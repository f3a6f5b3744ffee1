//! The trait of experiments and their common runner.
//!
//! In: an [`Experiment`], a [`Schedule`], an interrupt flag. Out: the experiment's document. It is concluded after
//! every trial, so an interrupt loses nothing.

use crate::child::Watch;
use crate::document::Document;
use crate::trial::{RawTrials, TrialHead, TrialStatus, Turn};
use corelane_host::conditions::ThermalCounters;
use corelane_host::counters::{CpuTimes, Throttling};
use corelane_load::timeline::TimelineFile;
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use serde_json::Value;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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

    /// Whether the run has to end soon: a spoilt trial is then marked, and not repeated.
    fn is_quick(&self) -> bool {
        false
    }

    /// Creates the document before the first measurement, and prepares expensive data such as large tables.
    ///
    /// # Errors
    /// If the request cannot be carried out.
    fn begin(&mut self) -> anyhow::Result<Self::Document>;

    /// The number of steps. Each is measured once per round.
    fn steps(&self) -> usize;

    /// A short description of a step.
    fn title(&self, step: usize, document: &Self::Document) -> String;

    /// The result of the last trial, of this step, in a few words; `None` if it has none.
    fn result(&self, _step: usize, _document: &Self::Document) -> Option<String> {
        None
    }

    /// Measures one step and adds its raw trials to the document.
    ///
    /// # Errors
    /// If nothing could be measured.
    fn trial(&mut self, running: &mut RunningTrial<'_>, document: &mut Self::Document) -> anyhow::Result<()>;

    /// The list in the document that has the raw trials of a step. The runner marks trials there that are spoilt or
    /// were cut by an interrupt, and adds those that failed.
    fn raw<'a>(&self, step: usize, document: &'a mut Self::Document) -> &'a mut dyn RawTrials;

    /// Concludes from the trials so far.
    fn conclude(&self, document: &mut Self::Document);
}

/// A running trial.
pub struct RunningTrial<'a> {
    /// Which.
    pub turn: Turn,
    watch: Watch<'a>,
    stops_early: bool,
    has_begun: bool,
    clocked: Option<CpuTimes>,
    quota: Option<String>,
}

impl<'a> RunningTrial<'a> {
    fn new(turn: Turn, watch: Watch<'a>) -> Self {
        Self {
            turn,
            watch,
            stops_early: false,
            has_begun: false,
            clocked: None,
            quota: None,
        }
    }

    /// The server serves and clients were started: an error from now on is a failed trial of the report, also in the first.
    pub(crate) fn begun(&mut self) {
        self.has_begun = true;
    }

    /// The interrupt flag, for a measurement that stops early once it is set, and where the lines of the measured
    /// generator go. A trial that was stopped is no result.
    pub fn watch(&mut self) -> Watch<'a> {
        self.stops_early = true;
        self.watch
    }

    /// A trial of this turn that measured for so many seconds.
    pub(crate) fn head(&self, duration_s: f64) -> TrialHead {
        TrialHead::new(self.turn.step, self.turn.round, duration_s)
    }

    /// What the CPUs spent during the measurement; the steal time in it is limited.
    pub fn clocked(&mut self, spent: CpuTimes) {
        self.clocked = Some(spent);
    }

    /// Measures, and reads the CPU times before and after, and how long this program and its children were stopped by a CPU
    /// quota. If the times cannot be read, steal time is unknown.
    pub fn clock<T>(&mut self, measure: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::process::id();
        let (begun, throttling) = (CpuTimes::read(), Throttling::read(own));
        let measured = measure(self);
        let quota = Throttling::read(own).limit_since(&throttling);
        self.quota = quota.map(|quota| quota.words("the run's"));
        if let (Ok(begun), Ok(ended)) = (begun, CpuTimes::read()) {
            self.clocked(ended.since(&begun));
        }
        measured
    }

    /// Whether the trial was cut by an interrupt.
    pub(crate) fn is_cut(&self) -> bool {
        self.stops_early && self.watch.interrupt.load(Ordering::Relaxed)
    }

    /// The status of the trial if it ended with an error.
    pub(crate) fn status_of_error(&self) -> TrialStatus {
        match self.is_cut() {
            true => TrialStatus::Interrupted,
            false => TrialStatus::Failed,
        }
    }

    /// The status of the trial and the reason, if it is no result although it was measured.
    fn set_aside(&self, schedule: &Schedule) -> Option<(TrialStatus, String)> {
        if self.is_cut() {
            return Some((TrialStatus::Interrupted, "ended early".to_owned()));
        }
        let spent = self.clocked.as_ref()?;
        Some((TrialStatus::Spoilt, spoilt(schedule.max_steal, spent)?))
    }
}

/// Returns the reason if a trial is spoilt: of what its CPUs spent, another machine on the same hardware used more than
/// the share `most`.
fn spoilt(most: f64, spent: &CpuTimes) -> Option<String> {
    let share = spent.total().steal_share()?;
    (share > most).then(|| {
        let (share, most) = (quantity::percent(share), quantity::percent(most));
        format!("{share} of CPU time was stolen, and --max-steal is {most}")
    })
}

/// The result of a thread; a panic of it goes on in this one.
pub(crate) fn joined<T>(ended: thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The progress of a run.
pub struct Progress<'a, D> {
    /// Trials done.
    pub done: usize,
    /// Total trials.
    pub of: usize,
    /// The step just measured.
    pub what: &'a str,
    /// Its result, in a few words.
    pub result: Option<String>,
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

/// Runs all trials of a started experiment until `interrupt` is set; lines of the generators go into `timeline`. A trial
/// spoilt by another machine is repeated at the end of its round, at most [`MOST_REPEATS`] times; never in a quick run.
///
/// # Errors
/// If the first trial fails before it has [begun](RunningTrial::begun), unless an interrupt cut it. Other failures are recorded
/// in the document.
pub fn run<E: Experiment>(
    experiment: &mut E,
    mut document: E::Document,
    schedule: Schedule,
    (interrupt, timeline): (&AtomicBool, Option<&TimelineFile>),
    mut on_progress: impl FnMut(&Progress<'_, E::Document>),
) -> anyhow::Result<E::Document> {
    experiment.conclude(&mut document);
    let (counters, mut done) = (ThermalCounters::read(), 0);
    let repeats = if experiment.is_quick() { 0 } else { MOST_REPEATS };
    let interrupted = in_order((schedule, repeats), experiment.steps(), interrupt, |turn, of| {
        let title = experiment.title(turn.step, &document);
        let trial = turn.trial(done, &title);
        let lines = timeline.map(|file| (file, &trial));
        let mut running = RunningTrial::new(turn, Watch { interrupt, lines });
        let measured = experiment.trial(&mut running, &mut document);
        let raw = experiment.raw(turn.step, &mut document);
        if let Some(quota) = &running.quota {
            raw.limit(turn, quota);
        }
        let set_aside = running.set_aside(&schedule);
        let is_spoilt = match (measured, set_aside) {
            (Err(error), _) if done == 0 && !running.has_begun && !running.is_cut() => return Err(error),
            (Err(error), _) => {
                let mut head = running.head(0.0);
                head.end(running.status_of_error(), error.to_string());
                raw.fail(head, &title);
                false
            }
            (Ok(()), Some((status, why))) => raw.end(turn, status, &why) && status == TrialStatus::Spoilt,
            (Ok(()), None) => false,
        };
        let failed = usize::from(raw.has_failed(turn) && !running.is_cut());
        done += 1;
        document.head_mut().failed_trials += failed;
        document.head_mut().interrupted = done < of;
        experiment.conclude(&mut document);
        on_progress(&Progress {
            done,
            of,
            what: &title,
            result: experiment.result(turn.step, &document),
            document: &document,
        });
        Ok(is_spoilt)
    })?;
    document.head_mut().interrupted = interrupted;
    if let Some(conditions) = &mut document.head_mut().conditions {
        conditions.add(ThermalCounters::read().since(&counters));
    }
    experiment.conclude(&mut document);
    Ok(document)
}

/// Runs every trial, in a random order per round, until `interrupt` is set; returns whether it was set. `run_trial`
/// returns whether the trial is spoilt; it is then run again at the end of its round, `repeats` times at most.
fn in_order<E>(
    (schedule, repeats): (Schedule, usize),
    steps: usize,
    interrupt: &AtomicBool,
    mut run_trial: impl FnMut(Turn, usize) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut order = fastrand::Rng::with_seed(schedule.seed);
    let mut of = schedule.rounds * steps;
    for round in 0..schedule.rounds {
        let mut turns: Vec<usize> = (0..steps).collect();
        order.shuffle(&mut turns);
        for repeat in 0..=repeats {
            let mut spoilt = Vec::new();
            for step in turns {
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                if run_trial(Turn { step, round }, of)? {
                    spoilt.push(step);
                    of += usize::from(repeat < repeats);
                }
            }
            turns = spoilt;
        }
    }
    Ok(interrupt.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
