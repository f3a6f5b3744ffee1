//! The scaling experiment for datagrams, for the runner.

use super::document::{Limit, LimitCause, SCHEMA, ScaleReport, Step, Trial};
use super::observe;
use super::plan::ScalePlan;
use super::{trial, verdict};
use crate::child::ChildError;
use crate::document::{Head, RunFacts, TrialStatus, as_json};
use crate::experiment::{Experiment, Trying, Turn};
use crate::steps::{Scaling, Trial as _, Tried};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_load::udp::UdpLoadError;
use serde_json::Value;
use std::path::PathBuf;
use thiserror::Error;

/// A scaling experiment, ready to run.
pub struct Scale {
    /// What to do.
    pub plan: ScalePlan,
    /// Where.
    pub bed: Bed,
    /// The program that servers and generators run as: this one.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: RunFacts,
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

impl Scale {
    /// An experiment that has not begun.
    #[must_use]
    pub fn new(
        plan: ScalePlan,
        bed: Bed,
        program: PathBuf,
        facts: RunFacts,
        descriptor_limit: usize,
    ) -> Self {
        Self {
            plan,
            bed,
            program,
            facts,
            descriptor_limit,
        }
    }
}

impl Experiment for Scale {
    type Document = ScaleReport;
    type Error = ScaleError;

    fn plan(&self) -> Result<Value, ScaleError> {
        Ok(as_json(&self.plan))
    }

    fn begin(&mut self) -> Result<ScaleReport, ScaleError> {
        for step in &self.plan.steps {
            self.plan.load(*step, self.descriptor_limit)?;
        }
        let steering = &self.plan.request.steering;
        let steps = self.plan.steps.iter().map(|step| {
            let cpus = steering.cpus[..step.buckets_active].to_vec();
            let shape = (step.mode, step.model, step.placement);
            Step {
                variation: step.variation,
                ..Step::new(shape, steering.table.buckets(), cpus)
            }
        });
        Ok(ScaleReport {
            head: Head::new(SCHEMA, &self.facts, Some(&self.bed)),
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
        })
    }

    fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    fn title(&self, step: usize, _report: &ScaleReport) -> String {
        self.plan.steps[step].to_string()
    }

    fn trial(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut ScaleReport,
    ) -> Result<TrialStatus, ScaleError> {
        let (trial, seen) = trial::run(self, trying)?;
        if let Some(seen) = seen.filter(|_| trial.tried.is_valid()) {
            report.steps[trying.turn.step].observed = Some(seen);
            report.lock_comparisons = observe::compare_locks(&report.steps);
        }
        let status = trial.tried.status;
        report.trials.push(trial);
        Ok(status)
    }

    fn failed(&self, turn: Turn, error: ScaleError, report: &mut ScaleReport) -> Result<(), ScaleError> {
        report
            .trials
            .push(Trial::new(Tried::failed(turn.step, turn.round, &error)));
        Ok(())
    }

    fn spoil(&self, _turn: Turn, why: String, report: &mut ScaleReport) {
        if let Some(trial) = report.trials.last_mut() {
            trial.tried_mut().spoil(why);
        }
    }

    fn conclude(&self, report: &mut ScaleReport) {
        if report.trials.is_empty() {
            return;
        }
        report.summarise();
        report.limit = verdict::limit(report, &self.plan);
    }
}
