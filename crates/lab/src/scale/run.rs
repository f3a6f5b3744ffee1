//! The runner: rounds, the seeded order of trials within each, and a report after every trial, so that an interrupt loses
//! nothing.

use super::observe::Kept;
use super::plan::{PlannedStep, ScalePlan};
use super::trial;
use super::verdict;
use crate::child::ChildError;
use corelane_host::HostError;
use corelane_host::bed::{Bed, BedKind};
use corelane_load::udp::UdpLoadError;
use corelane_report::scale::{
    self, Bed as ReportedBed, Limit, LimitCause, SCHEMA, ScaleReport, Scaling, Step, Tool, Trial, TrialStatus,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// A scaling experiment, ready to run.
pub struct Experiment {
    /// What to do.
    pub plan: ScalePlan,
    /// Where.
    pub bed: Bed,
    /// The program that servers and generators run as: this one.
    pub program: PathBuf,
    /// Its version, for the report.
    pub version: String,
    /// The command line that repeats the run.
    pub command_line: Vec<String>,
    /// What may spoil or explain the result, as read before the run.
    pub conditions: Value,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

/// What a run tells while it goes on.
pub struct Moment<'a> {
    /// Trials done.
    pub done: usize,
    /// Trials in all.
    pub of: usize,
    /// The step that was just tried.
    pub step: PlannedStep,
    /// Everything so far.
    pub report: &'a ScaleReport,
}

/// Why an experiment could not be carried out.
#[derive(Debug, Error)]
pub enum ScaleError {
    /// The clients cannot be planned.
    #[error(transparent)]
    Load(#[from] UdpLoadError),
    /// A server or generator failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A counter could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Experiment {
    /// Runs every trial, or as many as there are before `interrupt` is set.
    ///
    /// # Errors
    /// When the clients cannot be planned, or when the very first trial fails: later failures are kept in the report, as
    /// trials that failed.
    pub fn run(
        &self,
        interrupt: &AtomicBool,
        mut tell: impl FnMut(&Moment<'_>),
    ) -> Result<ScaleReport, ScaleError> {
        for step in &self.plan.steps {
            self.plan.load(*step, self.descriptor_limit)?;
        }
        let mut report = self.empty_report();
        let mut observations = Kept::default();
        let of = self.plan.steps.len() * self.plan.request.rounds as usize;
        let mut order = fastrand::Rng::with_seed(self.plan.request.seed);
        for round in 0..self.plan.request.rounds as usize {
            let mut steps: Vec<usize> = (0..self.plan.steps.len()).collect();
            order.shuffle(&mut steps);
            for index in steps {
                if interrupt.load(Ordering::Relaxed) {
                    report.interrupted = true;
                    return Ok(report);
                }
                let trial = match trial::run(self, index, round, interrupt) {
                    Ok((trial, seen)) => {
                        if let Some(seen) = seen.filter(|_| trial.is_valid()) {
                            observations.keep(&mut report, index, seen);
                        }
                        trial
                    }
                    Err(error) if report.trials.is_empty() => return Err(error),
                    Err(error) => failed(index, round, &error),
                };
                report.trials.push(trial);
                conclude(&mut report, &self.plan);
                let (done, step) = (report.trials.len(), self.plan.steps[index]);
                tell(&Moment {
                    done,
                    of,
                    step,
                    report: &report,
                });
            }
        }
        report.interrupted = interrupt.load(Ordering::Relaxed);
        Ok(report)
    }

    fn empty_report(&self) -> ScaleReport {
        let steering = &self.plan.request.steering;
        let steps = self.plan.steps.iter().map(|step| {
            let cpus = steering.cpus[..step.buckets_active].to_vec();
            let shape = (step.mode, step.model, step.placement);
            Step {
                variation: step.variation,
                ..Step::new(shape, steering.table.buckets(), cpus)
            }
        });
        ScaleReport {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: "corelane".to_owned(),
                version: self.version.clone(),
            },
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            command_line: self.command_line.clone(),
            bed: ReportedBed {
                kind: kind_name(self.bed.kind()).to_owned(),
                describe: self.bed.describe(),
                reason: self.bed.reason().map(str::to_owned),
            },
            conditions: self.conditions.clone(),
            plan: as_json(&self.plan),
            steering: as_json(steering),
            steps: steps.collect(),
            trials: Vec::new(),
            scaling: Scaling::default(),
            limit: Limit {
                cause: LimitCause::Unknown,
                sentence: "Nothing was measured.".to_owned(),
                evidence: Vec::new(),
            },
            lock_comparisons: Vec::new(),
            interrupted: false,
        }
    }
}

/// Medians, the scaling law and the verdict of what there is so far.
fn conclude(report: &mut ScaleReport, plan: &ScalePlan) {
    scale::summarise(&mut report.steps, &report.trials);
    report.scaling = scale::scaling(&report.steps);
    report.limit = verdict::limit(report, plan);
}

/// The kind of bed as documents write it.
pub(crate) fn kind_name(kind: BedKind) -> &'static str {
    match kind {
        BedKind::Namespaces => "namespaces",
        BedKind::UserNamespace => "user_namespace",
        BedKind::Loopback => "loopback",
    }
}

fn failed(step: usize, round: usize, error: &ScaleError) -> Trial {
    Trial {
        status: TrialStatus::Failed,
        why: Some(error.to_string()),
        ..Trial::new(step, round, 0.0)
    }
}

fn as_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "unknown_because": error.to_string() }))
}
