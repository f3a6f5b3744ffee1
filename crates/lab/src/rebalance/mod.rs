//! Measures what rebalancing gains on a running server, and whether it loses datagrams.
//!
//! In: a [`Request`]: key, buckets and CPUs, a Zipf load over the entries of the table, a rate. Out: the document of
//! `lab rebalance`. One server keeps its table (static RSS, the control). A second server is measured under the same
//! load three times: before any change, while its table changes continuously, and after its table was rebalanced from
//! its own counted loads. Server and generator are processes on the two sides of a bed. The load is an open loop that
//! both can carry, so any loss is caused by the table changes.

mod document;
mod page;
mod phase;

pub use document::{Decision, Phase, PhaseName, Rebalancing, SCHEMA, Verdict};
pub use phase::PAYLOAD_BYTES;

use crate::document::{Head, RunFacts, as_json};
use crate::error::Refusal;
use crate::experiment::{Experiment, RunningTrial};
use crate::trial::RawTrials;
use corelane_host::bed::Bed;
use corelane_host::counters::CpuTimes;
use corelane_measure::quantity;
use corelane_rss::Steering;
use corelane_rss::balance::{self, Options};
use document::{CONTROL_TITLE, entry_loads, verdict};
use phase::Bench;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;
use std::path::PathBuf;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Key, hashed fields, the initial table, and the CPU of each bucket.
    pub steering: Steering,
    /// Source address of the flows: an address of the bed's clients.
    pub client: IpAddr,
    /// The CPU of the generator.
    pub client_cpu: u32,
    /// Zipf exponent s: the load of the entry of rank k is proportional to k^-s.
    pub exponent: f64,
    /// Datagrams per second, over all entries.
    pub rate: f64,
    /// Seconds of each phase.
    pub duration_s: f64,
    /// Number of rounds; each loads different entries.
    pub rounds: u32,
    /// Table changes per minute while the table is changed all the time.
    pub changes_a_minute: u32,
    /// Accepted excess of the fullest bucket over the best level found, as a share of that level.
    pub tolerance: f64,
    /// Seed of the entries' ranks.
    pub seed: u64,
}

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
    pub facts: RunFacts,
}

impl Rebalance {
    /// Measures the three phases of one server: before, during and after.
    fn rebalanced(&self, running: &mut RunningTrial<'_>) -> anyhow::Result<(Vec<Phase>, Decision)> {
        let request = &self.request;
        let table = &request.steering.table;
        let mut bench = Bench::start(self, running)?;
        let before = bench.phase(PhaseName::Before, None)?;
        let loads = entry_loads(&bench.server.flows()?, table.size());
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
            head: Head::new(SCHEMA, &self.facts, Some(&self.bed)),
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
        let begun = CpuTimes::read();
        if running.turn.step == CONTROL {
            let control = Bench::start(self, running)?.phase(PhaseName::Static, None)?;
            rebalancing.phases.push(control);
        } else {
            let (phases, decision) = self.rebalanced(running)?;
            rebalancing.phases.extend(phases);
            // A repeat decides anew.
            rebalancing
                .decisions
                .retain(|other| other.round != decision.round);
            rebalancing.decisions.push(decision);
        }
        if let (Ok(begun), Ok(ended)) = (begun, CpuTimes::read()) {
            running.clocked(&begun, &ended);
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
