//! The experiment, for the runner: the control is a step, the server whose table changes the other.

use super::document::{CONTROL_TITLE, Decision, Phase, PhaseName, Rebalancing, SCHEMA, entry_loads, verdict};
use super::phase::Bench;
use super::plan::Request;
use crate::document::{Head, as_json};
use crate::error::Refusal;
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::RawTrials;
use corelane_host::bed::Bed;
use corelane_measure::quantity;
use corelane_rss::balance::{self, Options};
use serde_json::Value;
use std::path::PathBuf;

/// The experiment, ready to run.
#[derive(Debug)]
pub struct Rebalance {
    /// What to do.
    pub request: Request,
    /// Where.
    pub bed: Bed,
    /// The executable of servers and generators: this program.
    pub program: PathBuf,
    /// Facts about the run for its document.
    pub facts: Head,
}

impl Rebalance {
    fn start<'a, 'b: 'a>(&'a self, running: &mut RunningTrial<'b>) -> anyhow::Result<Bench<'a>> {
        Bench::start((&self.bed, &self.program), &self.request, running)
    }

    /// Measures the three phases of one server: before, during and after.
    fn rebalanced(&self, running: &mut RunningTrial<'_>) -> anyhow::Result<(Vec<Phase>, Decision)> {
        let request = &self.request;
        let table = &request.steering.table;
        let mut bench = self.start(running)?;
        let before = bench.phase(PhaseName::Before, None)?;
        let flows = bench.server.served()?.flows.unwrap_or_default();
        let loads = entry_loads(&flows, table);
        let options = Options {
            buckets: table.buckets(),
            tolerance: request.tolerance,
        };
        let decided = balance::rebalance(table, &loads, options)?;
        let levelled = decided.table.clone();
        let decision = Decision {
            round: Some(running.turn.round),
            decided,
        };
        let mut phases = vec![before];
        if !running.is_cut() {
            phases.push(bench.phase(PhaseName::During, Some([levelled.clone(), table.clone()]))?);
        }
        if !running.is_cut() {
            bench.server.change_table(levelled)?;
            phases.push(bench.phase(PhaseName::After, None)?);
        }
        Ok((phases, decision))
    }
}

/// Steps: the control, and the server whose table changes.
const CONTROL: usize = 0;
const STEPS: usize = 2;

impl Experiment for Rebalance {
    type Document = Rebalancing;

    fn plan(&self) -> anyhow::Result<Value> {
        match self.request.steering.table.buckets() {
            0 | 1 => Err(Refusal::new(
                "--buckets",
                "one bucket cannot be rebalanced: give two or more (--buckets)",
            )
            .into()),
            _ => Ok(as_json(&self.request)),
        }
    }

    fn begin(&mut self) -> anyhow::Result<Rebalancing> {
        self.plan()?;
        Ok(Rebalancing {
            head: self.facts.begun(SCHEMA, Some((&self.bed).into())),
            request: self.request.clone(),
            decisions: Vec::new(),
            phases: Vec::new(),
            verdict: None,
        })
    }

    fn steps(&self) -> usize {
        STEPS
    }

    fn title(&self, step: usize, _: &Self::Document) -> String {
        [CONTROL_TITLE, "before, during, after"][step].to_owned()
    }

    fn result(&self, _: usize, rebalancing: &Rebalancing) -> Option<String> {
        let last = rebalancing.phases.last()?;
        let [returned, sent] = [last.returned, last.sent].map(quantity::count);
        Some(format!("{returned} of {sent} datagrams returned"))
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, rebalancing: &mut Rebalancing) -> anyhow::Result<()> {
        if running.turn.step == CONTROL {
            let measure = |running: &mut _| self.start(running)?.phase(PhaseName::Static, None);
            rebalancing.phases.push(running.clock(measure)?);
        } else {
            let (phases, decision) = running.clock(|running| self.rebalanced(running))?;
            rebalancing.phases.extend(phases);
            // A repeat decides anew.
            rebalancing
                .decisions
                .retain(|other| other.round != decision.round);
            rebalancing.decisions.push(decision);
        }
        Ok(())
    }

    fn raw<'a>(&self, _: usize, rebalancing: &'a mut Rebalancing) -> &'a mut dyn RawTrials {
        &mut rebalancing.phases
    }

    fn conclude(&self, rebalancing: &mut Rebalancing) {
        rebalancing
            .phases
            .sort_by_key(|phase| (phase.head.round, phase.name));
        rebalancing.verdict = verdict(rebalancing);
    }
}
