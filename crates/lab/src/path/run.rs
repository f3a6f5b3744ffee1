//! The experiment, for the runner: a step is a case of the scenario.

use super::document::{PathReport, Request, Row, SCHEMA, Trial};
use super::list;
use super::scenario::{Case, Scenario};
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::{RawTrials, Trial as _};
use corelane_measure::metric::Values;
use serde_json::Value;

/// A scenario, ready to run.
pub struct Path {
    request: Request,
    facts: Head,
    cases: Vec<Case>,
}

impl Path {
    /// A scenario that has not begun.
    #[must_use]
    pub fn new(request: Request, facts: Head) -> Self {
        Self {
            request,
            facts,
            cases: Vec::new(),
        }
    }

    fn scenario(&self) -> &'static Scenario {
        list::scenario(self.request.scenario)
    }

    /// The row of a step; `None` without a result.
    fn row(&self, step: usize, trials: &[Trial]) -> Option<Row> {
        let (case, scenario) = (&self.cases[step], self.scenario());
        let of_step = |trial: &&Trial| trial.head.step == step && trial.head.is_result();
        let trials: Vec<&Trial> = trials.iter().filter(of_step).collect();
        let mut values = Values::default();
        values.fill(scenario.metrics, &trials);
        let labels = scenario.labels.iter().zip(&case.labels);
        (!trials.is_empty()).then(|| Row {
            step,
            labels: labels
                .map(|(name, label)| ((*name).to_owned(), label.clone()))
                .collect(),
            published: case.published.clone(),
            values,
        })
    }
}

impl Experiment for Path {
    type Document = PathReport;

    fn plan(&self) -> anyhow::Result<Value> {
        (self.scenario().cases)(&self.request)?;
        Ok(as_json(&self.request))
    }

    fn begin(&mut self) -> anyhow::Result<PathReport> {
        self.cases = (self.scenario().cases)(&self.request)?;
        Ok(PathReport {
            // The same request gives the same document, whenever it is run.
            head: Head {
                started_unix_s: None,
                ..self.facts.begun(SCHEMA, None)
            },
            plan: self.request.clone(),
            rows: Vec::new(),
            trials: Vec::new(),
            conclusions: Vec::new(),
        })
    }

    fn steps(&self) -> usize {
        self.cases.len()
    }

    fn title(&self, step: usize, _: &PathReport) -> String {
        self.cases[step].labels.join(", ")
    }

    fn result(&self, _: usize, report: &PathReport) -> Option<String> {
        let first = self.scenario().metrics[0];
        let words = |trial: &Trial| Some(format!("{} {}", first.words_of(trial)?, first.header));
        report.trials.last()?.in_words(words)
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut PathReport) -> anyhow::Result<()> {
        let turn = running.turn;
        let seed = self.request.seed.wrapping_add(turn.round as u64);
        let measured = (self.cases[turn.step].run)(running, seed)?;
        report.trials.push(Trial {
            head: running.head(0.0),
            ..measured
        });
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut PathReport) -> &'a mut dyn RawTrials {
        &mut report.trials
    }

    fn conclude(&self, report: &mut PathReport) {
        report
            .trials
            .sort_by_key(|trial| (trial.head.step, trial.head.round));
        let rows = (0..self.cases.len()).filter_map(|step| self.row(step, &report.trials));
        report.rows = rows.collect();
        report.conclusions = match report.rows.len() == self.cases.len() {
            true => (self.scenario().conclude)(&report.rows),
            false => Vec::new(),
        };
    }
}
