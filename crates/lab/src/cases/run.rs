//! The experiment, for the runner: a step is a case.

use super::document::Report;
use super::row::{Row, Trial};
use super::scenario::{Asked, Case};
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::{RawTrials, Trial as _};
use corelane_measure::metric::Values;
use serde_json::Value;

/// The cases of a request, ready to run.
pub struct Cases<R> {
    request: R,
    facts: Head,
    cases: Vec<Case>,
}

impl<R: Asked> Cases<R> {
    /// An experiment that has not begun.
    #[must_use]
    pub fn new(request: R, facts: Head) -> Self {
        Self {
            request,
            facts,
            cases: Vec::new(),
        }
    }

    /// The row of a step; `None` without a result.
    fn row(&self, step: usize, trials: &[Trial]) -> Option<Row> {
        let (case, scenario) = (&self.cases[step], self.request.scenario());
        let of_step = |trial: &&Trial| trial.head.step == step && trial.head.is_result();
        let trials: Vec<&Trial> = trials.iter().filter(of_step).collect();
        let mut values = Values::default();
        values.fill(scenario.metrics, &trials);
        let labels = scenario.labels.iter().zip(&case.labels);
        (!trials.is_empty()).then(|| Row {
            step,
            labels: labels
                .map(|((name, _), label)| ((*name).to_owned(), label.clone()))
                .collect(),
            published: case.published.clone(),
            values,
        })
    }
}

impl<R: Asked> Experiment for Cases<R> {
    type Document = Report<R>;

    fn plan(&self) -> anyhow::Result<Value> {
        (self.request.scenario().cases)(&self.request)?;
        Ok(as_json(&self.request))
    }

    fn begin(&mut self) -> anyhow::Result<Report<R>> {
        self.cases = (self.request.scenario().cases)(&self.request)?;
        Ok(Report {
            // The same request gives the same document, whenever it is run.
            head: Head {
                started_unix_s: None,
                ..self.facts.begun(R::SCHEMA, None)
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

    fn title(&self, step: usize, _: &Report<R>) -> String {
        let (names, labels) = (self.request.scenario().labels, &self.cases[step].labels);
        let label =
            |((_, unit), label): (&(&str, &str), &String)| format!("{label} {unit}").trim_end().to_owned();
        names.iter().zip(labels).map(label).collect::<Vec<_>>().join(", ")
    }

    fn result(&self, step: usize, report: &Report<R>) -> Option<String> {
        let main = self.request.main();
        let words = |trial: &Trial| Some(format!("{} {}", main.words_of(trial)?, main.header));
        let mut trials = report.trials.iter().rev();
        trials.find(|trial| trial.head.step == step)?.in_words(words)
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut Report<R>) -> anyhow::Result<()> {
        let turn = running.turn;
        let seed = self.request.turns().1.wrapping_add(turn.round as u64);
        let measured = (self.cases[turn.step].run)(running, seed)?;
        report.trials.push(Trial {
            head: running.head(0.0),
            ..measured
        });
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut Report<R>) -> &'a mut dyn RawTrials {
        &mut report.trials
    }

    fn conclude(&self, report: &mut Report<R>) {
        report
            .trials
            .sort_by_key(|trial| (trial.head.step, trial.head.round));
        let rows = (0..self.cases.len()).filter_map(|step| self.row(step, &report.trials));
        report.rows = rows.collect();
        report.conclusions = match report.rows.len() == self.cases.len() {
            true => (self.request.scenario().conclude)(&report.rows),
            false => Vec::new(),
        };
    }
}
