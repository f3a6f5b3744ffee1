//! The runner: rounds, the seeded order within each, and a report after every measurement, so that an interrupt loses
//! nothing.

use super::udp::{OUTSTANDING, PAYLOAD_BYTES};
use super::ways::{HashWay, Request, UdpWay};
use super::{hashes, udp};
use crate::child::ChildError;
use crate::documents::engines::{EnginesReport, LeftOut, Plan, SCHEMA, UdpTrial};
use crate::runner::{Moment, now_unix_s, reported_bed, tool};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_load::udp::UdpLoadError;
use corelane_rss::{Key, TableError, Toeplitz};
use corelane_worker::engine::choose;
use corelane_worker::{SpawnError, WorkerSettings, spawn};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// A comparison, ready to run.
pub struct Comparison {
    /// What to compare.
    pub request: Request,
    /// Where datagrams are moved.
    pub bed: Bed,
    /// The server's port.
    pub port: u16,
    /// The program that servers and clients run as: this one.
    pub program: PathBuf,
    /// Its version, for the report.
    pub version: String,
    /// The command line that repeats the run.
    pub command_line: Vec<String>,
    /// What may spoil or explain the result, as read before the run.
    pub conditions: Value,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

/// Why a comparison could not be carried out.
#[derive(Debug, Error)]
pub enum EnginesError {
    /// The client cannot be planned.
    #[error(transparent)]
    Load(#[from] UdpLoadError),
    /// The server's table cannot be.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A server or client failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A counter could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The thread that hashes could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// One measurement of a round.
#[derive(Clone, Copy)]
enum Step {
    Hashes,
    Udp(UdpWay),
}

impl Comparison {
    /// Measures every way in every round, or as many as there are before `interrupt` is set.
    ///
    /// # Errors
    /// When the very first measurement of a way's kind fails: later failures are kept in the report, with their reason.
    pub fn run(
        &self,
        interrupt: &AtomicBool,
        mut tell: impl FnMut(&Moment<'_, EnginesReport>),
    ) -> Result<EnginesReport, EnginesError> {
        let (here, left_out) = self.available();
        let mut steps: Vec<Step> = here.udp.iter().map(|way| Step::Udp(*way)).collect();
        if !here.hashes.is_empty() {
            steps.push(Step::Hashes);
        }
        let mut report = self.empty_report(&here, left_out);
        let of = steps.len() * self.request.rounds as usize;
        let mut order = fastrand::Rng::with_seed(self.request.seed);
        let mut done = 0;
        for round in 0..self.request.rounds {
            order.shuffle(&mut steps);
            for step in &steps {
                if interrupt.load(Ordering::Relaxed) {
                    report.interrupted = true;
                    return Ok(report);
                }
                let what = match *step {
                    Step::Hashes => {
                        report.toeplitz_trials.extend(self.hash(&here.hashes, round)?);
                        "toeplitz".to_owned()
                    }
                    Step::Udp(way) => {
                        let trial =
                            self.move_datagrams(way, round, report.udp_trials.is_empty(), interrupt)?;
                        report.udp_trials.push(trial);
                        way.to_string()
                    }
                };
                conclude(&mut report);
                done += 1;
                tell(&Moment {
                    done,
                    of,
                    what: &what,
                    report: &report,
                });
            }
        }
        report.interrupted = interrupt.load(Ordering::Relaxed);
        Ok(report)
    }

    /// What of the request this machine has, and why it lacks the rest.
    fn available(&self) -> (Request, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let mut here = self.request.clone();
        let mut lacks = |name: String, because: Option<String>| {
            let has = because.is_none();
            left_out.extend(because.map(|because| LeftOut { name, because }));
            has
        };
        here.hashes.retain(|way| match way {
            HashWay::Oracle => true,
            HashWay::Fast(fast) => {
                let compiled = Toeplitz::with_way(&Key::VERIFICATION, *fast);
                lacks(way.to_string(), compiled.err().map(|error| error.to_string()))
            }
        });
        here.udp
            .retain(|way| lacks(way.to_string(), choose(Some(way.engine())).reason));
        (here, left_out)
    }

    /// Hashes on a thread of the server's CPU.
    fn hash(
        &self,
        ways: &[HashWay],
        round: u32,
    ) -> Result<Vec<crate::documents::engines::ToeplitzTrial>, EnginesError> {
        let settings = WorkerSettings::new("toeplitz", self.request.server_cpu);
        let (ways, seed) = (ways.to_vec(), self.request.seed);
        let worker = spawn(settings, move || hashes::round(&ways, round, seed))?;
        Ok(worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// A failure is a result without a figure, unless it is the first one: then nothing can be measured here.
    fn move_datagrams(
        &self,
        way: UdpWay,
        round: u32,
        first: bool,
        interrupt: &AtomicBool,
    ) -> Result<UdpTrial, EnginesError> {
        match udp::trial(self, way, round, interrupt) {
            Ok(trial) if interrupt.load(Ordering::Relaxed) => Ok(UdpTrial {
                why: Some("ended early".to_owned()),
                ..trial
            }),
            Err(error) if !first => Ok(UdpTrial {
                name: way.to_string(),
                round,
                answered: 0,
                server_cpu_ns: 0,
                sending_s: 0.0,
                lost: 0,
                why: Some(error.to_string()),
            }),
            outcome => outcome,
        }
    }

    fn empty_report(&self, here: &Request, left_out: Vec<LeftOut>) -> EnginesReport {
        let bed = (!here.udp.is_empty()).then(|| reported_bed(&self.bed));
        EnginesReport {
            schema: SCHEMA.to_owned(),
            tool: tool(&self.version),
            started_unix_s: now_unix_s(),
            command_line: self.command_line.clone(),
            bed,
            conditions: self.conditions.clone(),
            plan: Plan {
                toeplitz: here.hashes.iter().map(HashWay::to_string).collect(),
                udp: here.udp.iter().map(UdpWay::to_string).collect(),
                rounds: here.rounds,
                duration_s: here.duration_s,
                payload_bytes: PAYLOAD_BYTES,
                outstanding: OUTSTANDING,
                server_cpu: here.server_cpu,
                client_cpu: here.client_cpu,
                seed: here.seed,
            },
            toeplitz: Vec::new(),
            udp: Vec::new(),
            left_out,
            toeplitz_trials: Vec::new(),
            udp_trials: Vec::new(),
            interrupted: false,
        }
    }
}

fn conclude(report: &mut EnginesReport) {
    report.conclude(|name| {
        let way = UdpWay::ALL.into_iter().find(|way| way.to_string() == name);
        way.map_or_else(String::new, |way| way.describe().to_owned())
    });
}
