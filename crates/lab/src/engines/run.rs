//! The comparison, for the runner: each way to move datagrams is a step, and all hashes together are one.

use super::document::{EnginesReport, LeftOut, Plan, SCHEMA, ToeplitzTrial, UdpTrial};
use super::udp::{OUTSTANDING, PAYLOAD_BYTES};
use super::ways::{HashWay, Request, UdpWay};
use super::{hashes, udp};
use crate::document::{Head, RunFacts, TrialStatus, as_json};
use crate::error::LabError;
use crate::experiment::{Experiment, Trying, Turn};
use crate::named::Named;
use corelane_host::bed::Bed;
use corelane_rss::{Key, Toeplitz};
use corelane_worker::engine::choose;
use corelane_worker::{WorkerSettings, spawn};
use serde_json::Value;
use std::path::PathBuf;

/// A comparison, ready to run.
pub struct Comparison {
    /// What is compared: of what was asked for, what this machine has.
    pub request: Request,
    /// Why it lacks the rest.
    left_out: Vec<LeftOut>,
    /// Where datagrams are moved.
    pub bed: Bed,
    /// The server's port.
    pub port: u16,
    /// The program that servers and clients run as: this one.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: RunFacts,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

impl Comparison {
    /// A comparison that has not begun.
    #[must_use]
    pub fn new(
        mut request: Request,
        (bed, port): (Bed, u16),
        program: PathBuf,
        facts: RunFacts,
        descriptor_limit: usize,
    ) -> Self {
        let left_out = leave_out(&mut request);
        Self {
            request,
            left_out,
            bed,
            port,
            program,
            facts,
            descriptor_limit,
        }
    }

    /// The way to move datagrams that a step tries; `None` for the hashes.
    fn way(&self, step: usize) -> Option<UdpWay> {
        self.request.udp.get(step).copied()
    }

    /// Hashes on a thread of the server's CPU.
    fn hash(&self, round: u32) -> Result<Vec<ToeplitzTrial>, LabError> {
        let settings = WorkerSettings::new("toeplitz", self.request.server_cpu);
        let (ways, seed) = (self.request.hashes.clone(), self.request.seed);
        let worker = spawn(settings, move || hashes::round(&ways, round, seed))?;
        Ok(worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn resolved(&self) -> Plan {
        let request = &self.request;
        Plan {
            toeplitz: request.hashes.iter().map(|way| way.name().to_owned()).collect(),
            udp: request.udp.iter().map(|way| way.name().to_owned()).collect(),
            rounds: request.rounds,
            duration_s: request.duration_s,
            payload_bytes: PAYLOAD_BYTES,
            outstanding: OUTSTANDING,
            server_cpu: request.server_cpu,
            client_cpu: request.client_cpu,
            seed: request.seed,
        }
    }
}

impl Experiment for Comparison {
    type Document = EnginesReport;
    type Error = LabError;

    fn plan(&self) -> Result<Value, LabError> {
        Ok(as_json(&self.resolved()))
    }

    fn begin(&mut self) -> Result<EnginesReport, LabError> {
        let bed = (!self.request.udp.is_empty()).then_some(&self.bed);
        Ok(EnginesReport {
            head: Head::new(SCHEMA, &self.facts, bed),
            plan: self.resolved(),
            left_out: self.left_out.clone(),
            ..EnginesReport::default()
        })
    }

    fn steps(&self) -> usize {
        self.request.udp.len() + usize::from(!self.request.hashes.is_empty())
    }

    fn title(&self, step: usize, _: &Self::Document) -> String {
        self.way(step).map_or("toeplitz", UdpWay::name).to_owned()
    }

    fn trial(
        &mut self,
        trying: &mut Trying<'_>,
        report: &mut EnginesReport,
    ) -> Result<TrialStatus, LabError> {
        let round = trying.turn.round as u32;
        let Some(way) = self.way(trying.turn.step) else {
            report.toeplitz_trials.extend(self.hash(round)?);
            return Ok(TrialStatus::Valid);
        };
        let mut trial = udp::trial(self, way, round, trying.interrupt)?;
        if trying.interrupted() {
            trial.why = Some("ended early".to_owned());
        }
        report.udp_trials.push(trial);
        Ok(TrialStatus::Valid)
    }

    /// A failure is a result without a figure, unless it is the first: then no datagrams can be moved here.
    fn failed(&self, turn: Turn, error: LabError, report: &mut EnginesReport) -> Result<(), LabError> {
        let Some(way) = self.way(turn.step).filter(|_| !report.udp_trials.is_empty()) else {
            return Err(error);
        };
        report.udp_trials.push(UdpTrial {
            name: way.name().to_owned(),
            round: turn.round as u32,
            why: Some(error.to_string()),
            ..UdpTrial::default()
        });
        Ok(())
    }

    fn conclude(&self, report: &mut EnginesReport) {
        report.summarise();
    }
}

/// Removes ways that this machine does not support from a request, with reasons.
fn leave_out(request: &mut Request) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    let mut has = |name: &str, because: Option<String>| {
        let has = because.is_none();
        let name = name.to_owned();
        left_out.extend(because.map(|because| LeftOut { name, because }));
        has
    };
    request.hashes.retain(|way| match way {
        HashWay::Oracle => true,
        HashWay::Fast(fast) => {
            let compiled = Toeplitz::with_way(&Key::VERIFICATION, *fast);
            has(way.name(), compiled.err().map(|error| error.to_string()))
        }
    });
    let udp = &mut request.udp;
    udp.retain(|way| has(way.name(), choose(Some(way.engine())).reason));
    left_out
}
