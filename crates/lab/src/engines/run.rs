//! The comparison, for the runner: each way to move datagrams is a step, and all hashes together are one.

use super::document::{EnginesReport, NS_PER_HASH, PER_CPU_SECOND, SCHEMA, ToeplitzTrial, UdpTrial};
use super::hashes;
use super::ways::{LeftOut, Plan, UdpWay};
use crate::child::{LoadProcess, ServerProcess};
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial, joined};
use crate::placing::lasting;
use crate::trial::{RawTrials, Trial as _, TrialStatus, Turn};
use corelane_host::bed::Bed;
use corelane_host::counters::ProcessCpu;
use corelane_load::pace::Pace;
use corelane_load::sources::{Align, AlignBy, SourceRequest, Steerings, Transport, WorkerRequest};
use corelane_load::udp::{Probes, UdpLoad, UdpPlan as UdpLoadPlan};
use corelane_measure::counters::Counters;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::udp::{Mode, UdpPlan as UdpServePlan, UdpServed, UdpServer};
use corelane_worker::{WorkerSettings, spawn};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A comparison, ready to run.
pub struct Comparison {
    /// What is compared.
    pub plan: Plan,
    /// The ways that this machine lacks, see [`Plan::leave_out`].
    pub left_out: Vec<LeftOut>,
    /// Where datagrams are moved.
    pub bed: Bed,
    /// The server's port.
    pub port: u16,
    /// The program that servers and clients run as: this one.
    pub program: PathBuf,
    /// What its document says of the run.
    pub facts: Head,
    /// Descriptors that one process may hold.
    pub descriptor_limit: usize,
}

impl Comparison {
    /// The way to move datagrams that a step tries; `None` for the hashes.
    fn way(&self, step: usize) -> Option<UdpWay> {
        self.plan.udp.get(step).copied()
    }

    /// Hashes on a thread of the server's CPU.
    fn hash(&self, turn: Turn) -> anyhow::Result<Vec<ToeplitzTrial>> {
        let settings = WorkerSettings::new("toeplitz", self.plan.server_cpu);
        let (ways, seed) = (self.plan.toeplitz.clone(), self.plan.seed);
        let worker = spawn(settings, move || hashes::round(&ways, turn, seed))?;
        Ok(joined(worker.join()))
    }
}

impl Experiment for Comparison {
    type Document = EnginesReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(&self.plan))
    }

    fn begin(&mut self) -> anyhow::Result<EnginesReport> {
        let bed = (!self.plan.udp.is_empty()).then(|| (&self.bed).into());
        Ok(EnginesReport {
            head: self.facts.begun(SCHEMA, bed),
            plan: self.plan.clone(),
            left_out: self.left_out.clone(),
            ..EnginesReport::default()
        })
    }

    fn steps(&self) -> usize {
        self.plan.udp.len() + usize::from(!self.plan.toeplitz.is_empty())
    }

    fn title(&self, step: usize, _: &Self::Document) -> String {
        self.way(step)
            .map_or("toeplitz".to_owned(), |way| way.to_string())
    }

    fn result(&self, step: usize, report: &EnginesReport) -> Option<String> {
        match self.way(step) {
            Some(_) => report
                .udp_trials
                .last()?
                .in_words(|trial| PER_CPU_SECOND.words_of(trial)),
            None => report.toeplitz_trials.last()?.in_words(|last| {
                let fastest = report.fastest_trial(last.head.round)?;
                let time = NS_PER_HASH.words_with_unit(fastest.ns_per_hash);
                Some(format!("{time} by {}, {} at once", fastest.name, fastest.batch))
            }),
        }
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut EnginesReport) -> anyhow::Result<()> {
        let turn = running.turn;
        match self.way(turn.step) {
            Some(way) => report.udp_trials.push(trial(self, way, running)?),
            None => report.toeplitz_trials.extend(running.clock(|_| self.hash(turn))?),
        }
        Ok(())
    }

    fn raw<'a>(&self, step: usize, report: &'a mut EnginesReport) -> &'a mut dyn RawTrials {
        match self.way(step) {
            Some(_) => &mut report.udp_trials,
            None => &mut report.toeplitz_trials,
        }
    }

    fn conclude(&self, report: &mut EnginesReport) {
        report.summarise();
    }
}

/// The posts' payload ("Receive side scaling: testing UDP throughput").
pub const PAYLOAD_BYTES: usize = 510;

/// Datagrams on the way at once, over all sockets of the client: several batches, so that the server rarely waits.
pub const OUTSTANDING: u32 = 512;

/// Receive buffer of the server: the window fits, whatever the kernel charges for a datagram.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Length of the traffic before each measurement that is not counted: it faults memory in and fills the kernel's
/// caches.
const WARM_UP_S: f64 = 0.05;

/// Answers under which a measurement gives no figure: ten windows, so that the start is a small part of it.
const FEWEST_ANSWERS: u64 = 10 * OUTSTANDING as u64;

fn trial(comparison: &Comparison, way: UdpWay, running: &mut RunningTrial<'_>) -> anyhow::Result<UdpTrial> {
    let (bed, program, watch) = (&comparison.bed, &comparison.program, running.watch());
    let (serve, load) = (server(comparison, way)?, client(comparison, way)?);
    let mut server = ServerProcess::<UdpServer>::start(program, &bed.server, &serve, watch.interrupt)?;
    let warm_up = UdpLoadPlan {
        until: lasting(WARM_UP_S),
        ..load.clone()
    };
    let warm_up =
        LoadProcess::<UdpLoad>::start(program, &bed.client)?.run(&warm_up, watch.naming(None), |_| ())?;
    running.begun();
    let (answered_before, cpu_before) = reading(&mut server, warm_up.total.returned)?;
    let client = LoadProcess::<UdpLoad>::start(program, &bed.client)?;
    let loaded = running.clock(|_| client.run(&load, watch, |_| ()))?;
    // The client ended once everything had come back, or nothing more came: the server is idle.
    let (answered, cpu) = reading(&mut server, answered_before + loaded.total.returned)?;
    let answered = answered.saturating_sub(answered_before);
    let mut head = running.head(loaded.sending_s);
    if let Some((status, why)) = no_result(answered, loaded.outcome.limited_by.as_deref()) {
        head.end(status, why);
    }
    head.end_if_lost(&loaded.outcome);
    Ok(UdpTrial {
        head,
        name: way.to_string(),
        answered,
        server_cpu_ns: cpu.since(&cpu_before).total_ns,
        sending_s: loaded.sending_s,
        lost: loaded.total.lost,
    })
}

/// Why a measurement gives no figure: too few answers, which is no failure of the server if the generator was the limit.
fn no_result(answered: u64, limited_by: Option<&str>) -> Option<(TrialStatus, String)> {
    let status = match limited_by {
        Some(_) if answered > 0 => TrialStatus::GeneratorLimited,
        _ => TrialStatus::Failed,
    };
    let why = limited_by.unwrap_or("give a longer --duration");
    let few = format!("only {answered} datagrams were answered, too few for a figure: {why}");
    (answered < FEWEST_ANSWERS).then_some((status, few))
}

/// The server's answers, once it has counted those that `returned`, and its CPU time.
fn reading(server: &mut ServerProcess<UdpServer>, returned: u64) -> anyhow::Result<(u64, ProcessCpu)> {
    let served = server.settled(UdpServed::answered, |answered, _| Ok(*answered >= returned))?;
    Ok((served.answered(), ProcessCpu::read(server.pid())?))
}

/// A server of one bucket.
fn server(comparison: &Comparison, way: UdpWay) -> anyhow::Result<UdpServePlan> {
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::TwoTuple,
        table: IndirectionTable::round_robin(128, 1)?,
        cpus: vec![comparison.plan.server_cpu],
        generation: 0,
    };
    Ok(UdpServePlan {
        mode: Mode::Echo,
        engine: Some(way.engine()),
        settings: way.server(),
        receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
        ..UdpServePlan::new(target(comparison), steering)
    })
}

/// A client that keeps the window full.
pub(super) fn client(comparison: &Comparison, way: UdpWay) -> anyhow::Result<UdpLoadPlan> {
    let plan = &comparison.plan;
    let target = target(comparison);
    let sources = SourceRequest {
        target: target.into(),
        pool: None,
        align: Align::Kernel,
        by: AlignBy::Forward,
        sockets: (plan.outstanding / way.window()) as usize,
    };
    let workers = WorkerRequest {
        steering: Steerings::default(),
        buckets: None,
        cpus: vec![plan.client_cpu],
        descriptor_limit: comparison.descriptor_limit,
    };
    let workers = sources.plan(&workers, Transport::Udp)?;
    let probes = Probes::new(plan.payload_bytes)?;
    Ok(UdpLoadPlan {
        pace: Pace::Window {
            datagrams: way.window(),
        },
        until: lasting(plan.duration_s),
        settings: way.client(),
        ..UdpLoadPlan::new(target, probes, workers)
    })
}

fn target(comparison: &Comparison) -> SocketAddr {
    SocketAddr::new(comparison.bed.server.address(), comparison.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_answers_fail_a_measurement_unless_the_generator_was_the_limit() {
        let status = |answered, limited_by| no_result(answered, limited_by).map(|(status, _)| status);
        assert_eq!(status(FEWEST_ANSWERS, None), None);
        assert_eq!(status(FEWEST_ANSWERS - 1, None), Some(TrialStatus::Failed));
        let still = Some("the worker on CPU 0 stood still");
        assert_eq!(status(1, still), Some(TrialStatus::GeneratorLimited));
        assert_eq!(status(0, still), Some(TrialStatus::Failed));
        assert!(
            no_result(1, still)
                .unwrap()
                .1
                .ends_with("too few for a figure: the worker on CPU 0 stood still")
        );
    }
}
