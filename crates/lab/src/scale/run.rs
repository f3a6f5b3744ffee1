//! The runner: rounds, the seeded order of trials within each, and a report after every trial, so that an interrupt loses
//! nothing.

use super::observe::Kept;
use super::plan::ScalePlan;
use super::trial;
use super::verdict;
use crate::child::ChildError;
use crate::documents::scale::{
    self, Limit, LimitCause, SCHEMA, ScaleReport, Scaling, Step, Trial, TrialStatus,
};
use crate::runner::{Moment, Schedule, as_json, now_unix_s, reported_bed, tool};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_load::udp::UdpLoadError;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
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
        mut tell: impl FnMut(&Moment<'_, ScaleReport>),
    ) -> Result<ScaleReport, ScaleError> {
        for step in &self.plan.steps {
            self.plan.load(*step, self.descriptor_limit)?;
        }
        let mut report = self.empty_report();
        let mut observations = Kept::default();
        let schedule = Schedule {
            rounds: self.plan.request.rounds as usize,
            steps: self.plan.steps.len(),
            seed: self.plan.request.seed,
        };
        report.interrupted = schedule.run(interrupt, |turn| {
            let (index, round) = (turn.step, turn.round);
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
            let status = trial.status;
            report.trials.push(trial);
            conclude(&mut report, &self.plan);
            tell(&Moment {
                done: report.trials.len(),
                of: turn.of,
                what: &self.plan.steps[index].to_string(),
                report: &report,
            });
            Ok(status)
        })?;
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
            tool: tool(&self.version),
            started_unix_s: now_unix_s(),
            command_line: self.command_line.clone(),
            bed: reported_bed(&self.bed),
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

fn failed(step: usize, round: usize, error: &ScaleError) -> Trial {
    Trial {
        status: TrialStatus::Failed,
        why: Some(error.to_string()),
        ..Trial::new(step, round, 0.0)
    }
}
