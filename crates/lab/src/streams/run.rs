//! The runner: rounds, the seeded order of trials within each, and a report after every trial, so that an interrupt loses
//! nothing.

use super::plan::StreamsPlan;
use super::{trial, verdict};
use crate::child::ChildError;
use crate::document::Bed as ReportedBed;
use crate::document::TrialStatus;
use crate::documents::streams::{self, Limit, Step, StreamsReport, Trial};
use crate::runner::{Moment, Schedule, as_json, now_unix_s, tool};
use crate::steps::Scaling;
use corelane_host::HostError;
use corelane_host::bed::BedError;
use corelane_load::http::HttpLoadError;
use corelane_load::tcp::TcpLoadError;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// A scaling experiment, ready to run.
pub struct StreamsExperiment {
    /// What to do.
    pub plan: StreamsPlan,
    /// Where, as reports tell it: every trial builds its own.
    pub bed: ReportedBed,
    /// The program that servers and generators run as: this one.
    pub program: PathBuf,
    /// Its version, for the report.
    pub version: String,
    /// The command line that repeats the run.
    pub command_line: Vec<String>,
    /// What may spoil or explain the result, as read before the run.
    pub conditions: Value,
}

/// Why an experiment could not be carried out.
#[derive(Debug, Error)]
pub enum StreamsError {
    /// The clients that make requests cannot be planned.
    #[error(transparent)]
    Load(#[from] HttpLoadError),
    /// The clients that move bytes cannot be planned.
    #[error(transparent)]
    TcpLoad(#[from] TcpLoadError),
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

impl StreamsExperiment {
    /// Runs every trial, or as many as there are before `interrupt` is set.
    ///
    /// # Errors
    /// When the clients cannot be planned, or when the very first trial fails: later failures are kept in the report, as
    /// trials that failed.
    pub fn run(
        &self,
        interrupt: &AtomicBool,
        mut tell: impl FnMut(&Moment<'_, StreamsReport>),
    ) -> Result<StreamsReport, StreamsError> {
        for step in &self.plan.steps {
            self.plan.clients(step)?;
        }
        let mut report = self.empty_report();
        let schedule = Schedule {
            rounds: self.plan.request.rounds as usize,
            steps: self.plan.steps.len(),
            seed: self.plan.request.seed,
        };
        report.interrupted = schedule.run(interrupt, |turn| {
            let (index, round) = (turn.step, turn.round);
            let trial = match trial::run(self, index, round, interrupt) {
                Ok(trial) => trial,
                Err(error) if report.trials.is_empty() => return Err(error),
                Err(error) => failed(index, round, &error),
            };
            let status = trial.status;
            report.trials.push(trial);
            self.conclude(&mut report);
            let shape = &self.plan.steps[index];
            tell(&Moment {
                done: report.trials.len(),
                of: turn.of,
                what: &format!("{} x{}", shape.title(), shape.buckets_active),
                report: &report,
            });
            Ok(status)
        })?;
        Ok(report)
    }

    /// Medians, the scaling law and the verdict of what there is so far.
    fn conclude(&self, report: &mut StreamsReport) {
        streams::summarise(report);
        report.scaling = streams::scaling(report);
        for index in 0..report.steps.len() {
            report.steps[index].limit = verdict::of_step(report, index, &self.plan);
        }
        report.limit = verdict::of_report(report);
    }

    fn empty_report(&self) -> StreamsReport {
        let request = &self.plan.request;
        let steps = self.plan.steps.iter().map(|shape| {
            let cpus = self.plan.server_cpus(shape);
            Step::new(shape.clone(), self.plan.buckets(), cpus)
        });
        StreamsReport {
            schema: request.protocol.schema().to_owned(),
            tool: tool(&self.version),
            started_unix_s: now_unix_s(),
            command_line: self.command_line.clone(),
            bed: self.bed.clone(),
            conditions: self.conditions.clone(),
            plan: as_json(&self.plan),
            steering: as_json(&request.steering),
            protocol: request.protocol,
            subject: request.subject.as_ref().map(|subject| subject.command.clone()),
            steps: steps.collect(),
            trials: Vec::new(),
            scaling: Scaling::default(),
            limit: Limit::unknown(),
            left_out: self.plan.left_out.clone(),
            interrupted: false,
        }
    }
}

fn failed(step: usize, round: usize, error: &StreamsError) -> Trial {
    Trial {
        status: TrialStatus::Failed,
        why: Some(error.to_string()),
        ..Trial::new(step, round)
    }
}
