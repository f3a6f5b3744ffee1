//! The simulation, for the runner: a step is a table, and a trial one round of it.

use super::document::{LeftOut, METRICS, PerBucket, Plan, SCHEMA, SimulateReport, Step, Trial};
use super::round::Round;
use super::{MOST_BUCKETS, MOST_FLOWS, Request, verdict};
use crate::document::{Head, as_json};
use crate::error::{Refusal, within};
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::RawTrials;
use corelane_rss::IndirectionTable;
use serde_json::Value;

/// The most datagrams of a round, far from where whole numbers stop to be exact in a 64-bit float (2^53).
const MOST_DATAGRAMS: u64 = 1_000_000_000_000_000;

/// A simulation, ready to run.
pub struct Simulation {
    request: Request,
    facts: Head,
    state: State,
}

/// What the trials share.
#[derive(Default)]
struct State {
    /// The table of each step.
    tables: Vec<IndirectionTable>,
    /// The buckets in the first round, by step.
    per_bucket: Vec<Vec<PerBucket>>,
    /// Trials of the last round.
    in_round: usize,
    /// The rounds with a trial of every step.
    complete: Vec<usize>,
    /// The flows of the last round that was drawn: all tables are simulated with the same.
    round: Option<Round>,
}

impl Simulation {
    /// A simulation that has not begun.
    #[must_use]
    pub fn new(request: Request, facts: Head) -> Self {
        Self {
            request,
            facts,
            state: State::default(),
        }
    }
}

impl Experiment for Simulation {
    type Document = SimulateReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(&planned(&self.request)?.1))
    }

    fn begin(&mut self) -> anyhow::Result<SimulateReport> {
        let (tables, plan) = planned(&self.request)?;
        self.state.per_bucket = vec![Vec::new(); tables.len()];
        self.state.tables = tables;
        Ok(SimulateReport {
            // The same request gives the same document, whenever it is simulated.
            head: Head {
                started_unix_s: None,
                ..self.facts.begun(SCHEMA, None)
            },
            plan,
            steps: Vec::new(),
            trials: Vec::new(),
            flows: Vec::new(),
            conclusions: Vec::new(),
        })
    }

    fn steps(&self) -> usize {
        self.state.tables.len()
    }

    fn title(&self, step: usize, _: &Self::Document) -> String {
        let table = &self.state.tables[step];
        format!("{} entries, {} buckets", table.size(), table.buckets())
    }

    fn result(&self, _: usize, report: &Self::Document) -> Option<String> {
        let imbalance = METRICS[0];
        let last = *imbalance.numbers(report.trials.last()).first()?;
        Some(format!("{} {}", imbalance.header, imbalance.show.words(last)))
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut SimulateReport) -> anyhow::Result<()> {
        let (step, number) = (running.turn.step, running.turn.round as u32);
        let round = match self.state.round.take().filter(|round| round.number == number) {
            Some(round) => round,
            None => {
                self.state.in_round = 0;
                Round::draw(&self.request, number)?
            }
        };
        if number == 0 && self.request.list_flows && report.flows.is_empty() {
            report.flows = round.listed();
        }
        let outcome = round.outcome(
            running.head(0.0),
            &self.state.tables[step],
            self.request.tolerance,
        );
        let (trial, per_bucket) = outcome.map_err(|error| Refusal::new("--tolerance", error))?;
        report.trials.push(trial);
        if number == 0 {
            self.state.per_bucket[step] = per_bucket;
        }
        self.state.round = Some(round);
        self.state.in_round += 1;
        if self.state.in_round == self.state.tables.len() {
            self.state.complete.push(running.turn.round);
        }
        Ok(())
    }

    fn raw<'a>(&self, _: usize, report: &'a mut SimulateReport) -> &'a mut dyn RawTrials {
        &mut report.trials
    }

    /// Rounds count when they are complete: all steps then rest on the same flows.
    fn conclude(&self, report: &mut SimulateReport) {
        if self.state.in_round < self.state.tables.len() {
            return;
        }
        let place = |trial: &Trial| (trial.head.step, trial.head.round);
        report.trials.sort_by_key(place);
        let counts = |trial: &&Trial| {
            trial.head.is_result() && self.state.complete.binary_search(&trial.head.round).is_ok()
        };
        let counted: Vec<&Trial> = report.trials.iter().filter(counts).collect();
        let by_step = counted.chunk_by(|one, next| one.head.step == next.head.step);
        let per_bucket = self.state.per_bucket.iter();
        let steps = by_step.zip(per_bucket);
        report.steps = steps
            .filter_map(|(trials, per_bucket)| Step::of(trials, per_bucket.clone()))
            .collect();
        report.conclusions = verdict::conclusions(&report.steps);
    }
}

/// The table of each step, by size, then by buckets; and the plan.
fn planned(request: &Request) -> Result<(Vec<IndirectionTable>, Plan), Refusal> {
    let (mut tables, mut left_out) = (Vec::new(), Vec::new());
    let (sizes, entries) = (1..=IndirectionTable::LARGEST, "a table of N entries");
    within("--table-size", &request.table_sizes, sizes, entries, "")?;
    within("--buckets", &request.buckets, 1..=MOST_BUCKETS, "N buckets", "")?;
    for &table_size in &request.table_sizes {
        for &buckets in &request.buckets {
            match IndirectionTable::round_robin(table_size, buckets) {
                Ok(table) => tables.push(table),
                Err(_) => left_out.push(LeftOut { table_size, buckets }),
            }
        }
    }
    if tables.is_empty() {
        let wrong = "no table has as many entries as there are buckets";
        let reason = format!("{wrong}: give larger tables (--table-size) or fewer buckets");
        return Err(Refusal::new("--table-size and --buckets", reason));
    }
    let (flows, datagrams) = (request.flows, request.datagrams);
    within("--flows", &[flows], 1..=MOST_FLOWS, "N flows", "")?;
    if !(flows as u64..=MOST_DATAGRAMS).contains(&datagrams) {
        let wrong = format!("{datagrams} datagrams for {flows} flows");
        let reason = format!("{wrong}: give at least as many datagrams as flows, up to 10^15");
        return Err(Refusal::new("--datagrams", reason));
    }
    if request.rounds == 0 {
        return Err(Refusal::new("--rounds", "no rounds: give at least 1"));
    }
    let request = request.clone();
    Ok((tables, Plan { request, left_out }))
}
