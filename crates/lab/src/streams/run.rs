//! The runner: rounds, the seeded order of trials within each, and a report after every trial, so that an interrupt loses
//! nothing.

use super::plan::StreamsPlan;
use super::{as_json, trial, verdict};
use crate::child::ChildError;
use crate::scale::kind_name;
use corelane_host::HostError;
use corelane_host::bed::{Bed, BedError};
use corelane_load::http::HttpLoadError;
use corelane_load::tcp::TcpLoadError;
use corelane_report::scale::{Bed as ReportedBed, Scaling, Tool, TrialStatus};
use corelane_report::streams::{self, Limit, Shape, Step, StreamsReport, Trial};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
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

/// What a run tells while it goes on.
pub struct StreamsMoment<'a> {
    /// Trials done.
    pub done: usize,
    /// Trials in all.
    pub of: usize,
    /// The step that was just tried.
    pub step: &'a Shape,
    /// Everything so far.
    pub report: &'a StreamsReport,
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
        mut tell: impl FnMut(&StreamsMoment<'_>),
    ) -> Result<StreamsReport, StreamsError> {
        for step in &self.plan.steps {
            self.plan.clients(step)?;
        }
        let mut report = self.empty_report();
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
                    Ok(trial) => trial,
                    Err(error) if report.trials.is_empty() => return Err(error),
                    Err(error) => failed(index, round, &error),
                };
                report.trials.push(trial);
                self.conclude(&mut report);
                tell(&StreamsMoment {
                    done: report.trials.len(),
                    of,
                    step: &self.plan.steps[index],
                    report: &report,
                });
            }
        }
        report.interrupted = interrupt.load(Ordering::Relaxed);
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
            tool: Tool {
                name: "corelane".to_owned(),
                version: self.version.clone(),
            },
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
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

/// A bed as reports tell it.
#[must_use]
pub fn reported_bed(bed: &Bed) -> ReportedBed {
    ReportedBed {
        kind: kind_name(bed.kind()).to_owned(),
        describe: bed.describe(),
        reason: bed.reason().map(str::to_owned),
    }
}

fn failed(step: usize, round: usize, error: &StreamsError) -> Trial {
    Trial {
        status: TrialStatus::Failed,
        why: Some(error.to_string()),
        ..Trial::new(step, round)
    }
}
