//! Scaling experiments for the runner: each trial uses a bed, a server and clients and adds to one document.

use crate::document::{Document, Head, TrialStatus, as_json};
use crate::experiment::{Experiment, Tried, Trying, Turn};
use crate::limit::{Limit, Scaling};
use crate::steps::{Kind, Report, Shape, Step, Trial};
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
    fn check(&self, shape: &<Self::Kind as Kind>::Shape) -> anyhow::Result<()>;

    /// Measures one step.
    ///
    /// # Errors
    /// When nothing could be measured.
    fn measure(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut Report<Self::Kind>,
    ) -> anyhow::Result<<Self::Kind as Kind>::Trial>;

    /// Determines the limit of each step and of the report.
    fn judge(&self, report: &mut Report<Self::Kind>);
}

impl<T: Trials> Experiment for T
where
    Report<T::Kind>: Document,
{
    type Document = Report<T::Kind>;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(self.outline().plan)
    }

    fn begin(&mut self) -> anyhow::Result<Self::Document> {
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

    fn trial(&mut self, trying: &mut Trying<'_>, report: &mut Self::Document) -> anyhow::Result<TrialStatus> {
        let trial = self.measure(trying, report)?;
        let status = trial.tried().status;
        report.trials.push(trial);
        Ok(status)
    }

    fn failed(&self, turn: Turn, error: anyhow::Error, report: &mut Self::Document) -> anyhow::Result<()> {
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
