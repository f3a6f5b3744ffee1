//! Scaling experiments for the runner: each trial uses a bed, a server and clients and adds to one document.

use crate::document::Document;
use crate::experiment::{Experiment, RunningTrial};
use crate::observed::Observed;
use crate::scale::steps::{Kind, Report, Shape};
use crate::trial::{RawTrials, Trial as _};
use serde_json::Value;

/// A scaling experiment.
pub trait ScalingExperiment {
    /// The kind of experiment.
    type Kind: Kind;

    /// The document before the first trial.
    fn planned(&self) -> Report<Self::Kind>;

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
        Ok(self.planned().plan)
    }

    fn is_quick(&self) -> bool {
        self.planned().is_quick()
    }

    fn begin(&mut self) -> anyhow::Result<Self::Document> {
        let report = self.planned();
        report.steps.iter().try_for_each(|step| self.check(&step.shape))?;
        Ok(report)
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
