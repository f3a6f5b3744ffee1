//! Scaling experiments for the runner: each trial uses a bed, a server and clients and adds to one document.

use crate::document::{Document, Head, as_json};
use crate::experiment::{Experiment, RunningTrial};
use crate::observed::Observed;
use crate::scale::steps::{Kind, Planned, Report, Shape};
use crate::trial::{RawTrials, Trial as _};
use serde::Serialize;
use serde_json::Value;

/// A scaling experiment.
pub trait ScalingExperiment {
    /// The kind of experiment.
    type Kind: Kind;
    /// Its plan.
    type Plan: Serialize;

    /// The plan.
    fn planned(&self) -> Planned<'_, Self::Plan, <Self::Kind as Kind>::Shape>;

    /// What the document begins with, and its fields that no other has.
    fn described(&self) -> (Head, Self::Kind);

    /// Checks whether a step's clients can be planned.
    ///
    /// # Errors
    /// Why they cannot.
    fn check(&self, shape: &<Self::Kind as Kind>::Shape) -> anyhow::Result<()>;

    /// Measures one step; with what was observed meanwhile, if that was requested.
    ///
    /// # Errors
    /// When nothing could be measured.
    fn measure(
        &mut self,
        running: &mut RunningTrial<'_>,
    ) -> anyhow::Result<(<Self::Kind as Kind>::Trial, Option<Observed>)>;

    /// Determines the limit of each step and of the report.
    fn judge(&self, report: &mut Report<Self::Kind>);
}

impl<T: ScalingExperiment> Experiment for T
where
    Report<T::Kind>: Document,
{
    type Document = Report<T::Kind>;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(self.planned().plan))
    }

    fn is_quick(&self) -> bool {
        self.planned().is_quick
    }

    fn begin(&mut self) -> anyhow::Result<Self::Document> {
        let planned = self.planned();
        planned.steps.iter().try_for_each(|shape| self.check(shape))?;
        let (head, kind) = self.described();
        Ok(Report::planned(head, kind, &planned))
    }

    fn steps(&self) -> usize {
        self.planned().steps.len()
    }

    fn title(&self, step: usize, report: &Self::Document) -> String {
        let shape = &report.steps[step].shape;
        format!("{} x{}", shape.title(), shape.active())
    }

    fn result(&self, _step: usize, report: &Self::Document) -> Option<String> {
        report
            .trials
            .last()?
            .in_words(|trial| report.rate().words_of(trial))
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut Self::Document) -> anyhow::Result<()> {
        let (trial, seen) = self.measure(running)?;
        if let Some(seen) = seen.filter(|_| trial.head().is_valid() && !running.is_cut()) {
            report.steps[running.turn.step].observed = Some(seen);
        }
        report.trials.push(trial);
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut Self::Document) -> &'a mut dyn RawTrials {
        &mut report.trials
    }

    fn conclude(&self, report: &mut Self::Document) {
        if !report.trials.is_empty() {
            report.summarise();
            self.judge(report);
        }
    }
}
