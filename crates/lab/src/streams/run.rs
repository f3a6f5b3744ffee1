//! The scaling experiment for requests and bytes, for the runner.

use super::document::{Limit, Step, StreamsReport, Trial};
use super::plan::StreamsPlan;
use super::{trial, verdict};
use crate::child::ChildError;
use crate::document::{Bed, Head, RunFacts, TrialStatus, as_json};
use crate::experiment::{Experiment, Trying, Turn};
use crate::steps::{Scaling, Trial as _, Tried};
use corelane_host::HostError;
use corelane_host::bed::BedError;
use corelane_load::http::HttpLoadError;
use serde_json::Value;
use std::path::PathBuf;
use thiserror::Error;

/// A scaling experiment, ready to run.
pub struct Streams {
    /// What to do.
    pub plan: StreamsPlan,
    /// Where, for its document: every trial builds its own.
    pub bed: Bed,
    /// The program that servers and generators run as: this one.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: RunFacts,
}

/// Why an experiment could not be carried out.
#[derive(Debug, Error)]
pub enum StreamsError {
    /// The clients cannot be planned.
    #[error(transparent)]
    Load(#[from] HttpLoadError),
    /// There is no bed.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// A server or generator failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A counter could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Experiment for Streams {
    type Document = StreamsReport;
    type Error = StreamsError;

    fn plan(&self) -> Result<Value, StreamsError> {
        Ok(as_json(&self.plan))
    }

    fn begin(&mut self) -> Result<StreamsReport, StreamsError> {
        for step in &self.plan.steps {
            self.plan.clients(step)?;
        }
        let request = &self.plan.request;
        let steps = self.plan.steps.iter().map(|shape| {
            let cpus = self.plan.server_cpus(shape);
            Step::new(shape.clone(), self.plan.buckets(), cpus)
        });
        Ok(StreamsReport {
            head: Head {
                bed: Some(self.bed.clone()),
                ..Head::new(request.protocol.schema(), &self.facts, None)
            },
            plan: as_json(&self.plan),
            steering: as_json(&request.steering),
            protocol: request.protocol,
            subject: request.subject.as_ref().map(|subject| subject.command.clone()),
            steps: steps.collect(),
            trials: Vec::new(),
            scaling: Scaling::default(),
            limit: Limit::unknown(),
            left_out: self.plan.left_out.clone(),
        })
    }

    fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    fn title(&self, step: usize, _report: &StreamsReport) -> String {
        let shape = &self.plan.steps[step];
        format!("{} x{}", shape.title(), shape.buckets_active)
    }

    fn trial(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut StreamsReport,
    ) -> Result<TrialStatus, StreamsError> {
        let trial = trial::run(self, trying)?;
        let status = trial.tried.status;
        report.trials.push(trial);
        Ok(status)
    }

    fn failed(
        &self,
        turn: Turn,
        error: StreamsError,
        report: &mut StreamsReport,
    ) -> Result<(), StreamsError> {
        report
            .trials
            .push(Trial::new(Tried::failed(turn.step, turn.round, &error)));
        Ok(())
    }

    fn spoil(&self, _turn: Turn, why: String, report: &mut StreamsReport) {
        if let Some(trial) = report.trials.last_mut() {
            trial.tried_mut().spoil(why);
        }
    }

    fn conclude(&self, report: &mut StreamsReport) {
        if report.trials.is_empty() {
            return;
        }
        report.summarise();
        for index in 0..report.steps.len() {
            report.steps[index].limit = verdict::of_step(report, index, &self.plan);
        }
        report.limit = verdict::of_report(report);
    }
}
