//! Scaling experiments for the runner: each trial uses a bed, a server and clients and adds to one document.

use crate::child::ChildError;
use crate::document::{Document, Head, TrialStatus, as_json};
use crate::experiment::{Experiment, Trying, Turn};
use crate::limit::Limit;
use crate::steps::{Kind, Report, Scaling, Shape, Step, Trial, Tried};
use corelane_host::HostError;
use corelane_host::bed::BedError;
use corelane_load::http::HttpLoadError;
use corelane_load::udp::UdpLoadError;
use corelane_rss::Steering;
use serde_json::Value;
use thiserror::Error;

/// An error of a scaling experiment.
#[derive(Debug, Error)]
pub enum ScaleError {
    /// The clients that send datagrams cannot be planned.
    #[error(transparent)]
    Load(#[from] UdpLoadError),
    /// The clients that speak HTTP or move bytes cannot be planned.
    #[error(transparent)]
    StreamLoad(#[from] HttpLoadError),
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

/// The plan of a scaling experiment.
pub struct Outline<'a, K: Kind> {
    /// The head of its document.
    pub head: Head,
    /// The fields specific to its document.
    pub kind: K,
    /// The resolved plan.
    pub plan: Value,
    /// The steering document of server and clients.
    pub steering: &'a Steering,
    /// Every step.
    pub steps: &'a [K::Shape],
}

/// A scaling experiment.
pub trait Trials {
    /// The kind of experiment.
    type Kind: Kind;

    /// The plan.
    fn outline(&self) -> Outline<'_, Self::Kind>;

    /// Checks whether a step's clients can be planned.
    ///
    /// # Errors
    /// If they cannot be planned.
    fn check(&self, shape: &<Self::Kind as Kind>::Shape) -> Result<(), ScaleError>;

    /// Measures one step.
    ///
    /// # Errors
    /// When nothing could be measured.
    fn measure(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut Report<Self::Kind>,
    ) -> Result<<Self::Kind as Kind>::Trial, ScaleError>;

    /// Determines the limit of each step and of the report.
    fn judge(&self, report: &mut Report<Self::Kind>);
}

impl<T: Trials> Experiment for T
where
    Report<T::Kind>: Document,
{
    type Document = Report<T::Kind>;
    type Error = ScaleError;

    fn plan(&self) -> Result<Value, ScaleError> {
        Ok(self.outline().plan)
    }

    fn begin(&mut self) -> Result<Self::Document, ScaleError> {
        let outline = self.outline();
        outline.steps.iter().try_for_each(|shape| self.check(shape))?;
        let steering = outline.steering;
        let step = |shape: &<T::Kind as Kind>::Shape| {
            let cpus = steering.cpus[..shape.active()].to_vec();
            Step::new(shape.clone(), steering.cpus.len(), cpus)
        };
        Ok(Report {
            head: outline.head,
            plan: outline.plan,
            steering: as_json(steering),
            kind: outline.kind,
            steps: outline.steps.iter().map(step).collect(),
            trials: Vec::new(),
            scaling: Scaling::default(),
            limit: Limit::unknown(),
        })
    }

    fn steps(&self) -> usize {
        self.outline().steps.len()
    }

    fn title(&self, step: usize, report: &Self::Document) -> String {
        let shape = &report.steps[step].shape;
        format!("{} x{}", shape.title(), shape.active())
    }

    fn trial(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut Self::Document,
    ) -> Result<TrialStatus, ScaleError> {
        let trial = self.measure(trying, report)?;
        let status = trial.tried().status;
        report.trials.push(trial);
        Ok(status)
    }

    fn failed(&self, turn: Turn, error: ScaleError, report: &mut Self::Document) -> Result<(), ScaleError> {
        let mut tried = Tried::new(turn.step, turn.round, 0.0);
        tried.end(TrialStatus::Failed, error.to_string());
        report.trials.push(Trial::new(tried));
        Ok(())
    }

    fn spoil(&self, _turn: Turn, why: String, report: &mut Self::Document) {
        if let Some(trial) = report.trials.last_mut() {
            trial.tried_mut().end(TrialStatus::Spoilt, why);
        }
    }

    fn conclude(&self, report: &mut Self::Document) {
        if !report.trials.is_empty() {
            report.summarise();
            self.judge(report);
        }
    }
}
