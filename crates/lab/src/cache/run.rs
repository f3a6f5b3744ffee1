//! The experiment, for the runner: a step is a shape and a size. A trial gives all policies the same requests.

use super::document::{CacheReport, METRICS, MISSES, Request, Row, SCHEMA, Trial};
use super::policies::POLICIES;
use super::policy::{bytes, hit_ratio};
use super::requests::{CacheRequest, requests};
use super::shapes::{SHAPES, Shape};
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::{RawTrials, Trial as _};
use corelane_measure::metric::Values;
use serde_json::Value;
use std::collections::HashSet;

/// A comparison, ready to run.
pub struct Cache {
    request: Request,
    facts: Head,
}

impl Cache {
    /// A comparison that has not begun.
    #[must_use]
    pub fn new(request: Request, facts: Head) -> Self {
        Self { request, facts }
    }

    fn case(&self, step: usize) -> (&'static Shape, u32) {
        let sizes = &self.request.percents;
        (&SHAPES[step / sizes.len()], sizes[step % sizes.len()])
    }

    /// The row of a step; `None` without a result.
    fn row(&self, step: usize, trials: &[Trial]) -> Option<Row> {
        let of_step = |trial: &&Trial| trial.head.step == step && trial.head.is_result();
        let trials: Vec<&Trial> = trials.iter().filter(of_step).collect();
        let mut values = Values::default();
        values.fill(METRICS, &trials);
        let (shape, percent) = self.case(step);
        (!trials.is_empty()).then(|| Row {
            step,
            shape: shape.name.to_owned(),
            percent,
            values,
        })
    }
}

/// Bytes of all items that are requested.
fn footprint(requests: &[CacheRequest]) -> u64 {
    let mut seen = HashSet::new();
    let first = requests.iter().filter(|request| seen.insert(request.key));
    first.map(bytes).sum()
}

impl Experiment for Cache {
    type Document = CacheReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(&self.request))
    }

    fn begin(&mut self) -> anyhow::Result<CacheReport> {
        Ok(CacheReport {
            // The same request gives the same document, whenever it is run.
            head: Head {
                started_unix_s: None,
                ..self.facts.begun(SCHEMA, None)
            },
            plan: self.request.clone(),
            rows: Vec::new(),
            trials: Vec::new(),
        })
    }

    fn steps(&self) -> usize {
        SHAPES.len() * self.request.percents.len()
    }

    fn title(&self, step: usize, _: &CacheReport) -> String {
        let (shape, percent) = self.case(step);
        format!("{}, {percent} %", shape.name)
    }

    fn result(&self, step: usize, report: &CacheReport) -> Option<String> {
        let words = |trial: &Trial| Some(format!("misses {}", MISSES.words_of(trial)?));
        let mut trials = report.trials.iter().rev();
        trials.find(|trial| trial.head.step == step)?.in_words(words)
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut CacheReport) -> anyhow::Result<()> {
        let (turn, plan) = (running.turn, &self.request);
        let (shape, percent) = self.case(turn.step);
        let seed = plan.seed.wrapping_add(turn.round as u64);
        let requests = requests(shape, plan.keys, plan.requests as usize, seed);
        let footprint = footprint(&requests);
        let limit = footprint * u64::from(percent) / 100;
        report.trials.push(Trial {
            head: running.head(0.0),
            footprint,
            hit_ratios: POLICIES
                .iter()
                .map(|(name, make)| ((*name).to_owned(), hit_ratio(make(limit).as_mut(), &requests)))
                .collect(),
        });
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut CacheReport) -> &'a mut dyn RawTrials {
        &mut report.trials
    }

    fn conclude(&self, report: &mut CacheReport) {
        report
            .trials
            .sort_by_key(|trial| (trial.head.step, trial.head.round));
        let rows = (0..self.steps()).filter_map(|step| self.row(step, &report.trials));
        report.rows = rows.collect();
    }
}
