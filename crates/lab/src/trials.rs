//! Scaling experiments for the runner: each trial uses a bed, a server and clients and adds to one document.

use crate::document::{Document, Head, TrialStatus, as_json};
use crate::error::LabError;
use crate::experiment::{Experiment, Trying, Turn};
use crate::law::Scaling;
use crate::limit::Limit;
use crate::steps::{Kind, Report, Shape, Step, Trial};
use crate::tried::Tried;
use corelane_rss::Steering;
use serde_json::Value;

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
    /// Why they cannot.
    fn check(&self, shape: &<Self::Kind as Kind>::Shape) -> Result<(), LabError>;

    /// Measures one step.
    ///
    /// # Errors
    /// When nothing could be measured.
    fn measure(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut Report<Self::Kind>,
    ) -> Result<<Self::Kind as Kind>::Trial, LabError>;

    /// Determines the limit of each step and of the report.
    fn judge(&self, report: &mut Report<Self::Kind>);
}

impl<T: Trials> Experiment for T
where
    Report<T::Kind>: Document,
{
    type Document = Report<T::Kind>;
    type Error = LabError;

    fn plan(&self) -> Result<Value, LabError> {
        Ok(self.outline().plan)
    }

    fn begin(&mut self) -> Result<Self::Document, LabError> {
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
    ) -> Result<TrialStatus, LabError> {
        let trial = self.measure(trying, report)?;
        let status = trial.tried().status;
        report.trials.push(trial);
        Ok(status)
    }

    fn failed(&self, turn: Turn, error: LabError, report: &mut Self::Document) -> Result<(), LabError> {
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
