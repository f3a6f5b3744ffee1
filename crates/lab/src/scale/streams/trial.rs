//! One trial of one step: a bed, a server and clients of its own; readings when every connection is open, in the
//! middle, and when the last request has been made.

use super::account::{self, Evidence, Readings};
use super::document::Server as ServerKind;
use super::document::{ByteStreams, FEWEST_TO_SHARE, Shape, StreamsReport, Trial};
use super::ends::{ClientCounts, ServerCounts, of_http, of_tcp, served_by_subject, served_http, served_tcp};
use super::memory::{self, KernelMemory, ServerProcesses};
use super::plan::StreamsPlan;
use super::verdict;
use crate::child::{LoadProcess, ServerProcess, Subject};
use crate::document::{self, Head};
use crate::experiment::{RunningTrial, joined};
use crate::observe::Observation;
use crate::observed::Observed;
use crate::scale::experiment::ScalingExperiment;
use crate::scale::steps::Report;
use anyhow::anyhow;
use corelane_host::bed::Bed;
use corelane_load::http::HttpLoad;
use corelane_load::tcp::TcpLoad;
use corelane_load::{Generator, Moment};
use corelane_measure::counters::Counters;
use corelane_observe::profile::Processes;
use corelane_serve::Server;
use corelane_serve::http::HttpServer;
use corelane_serve::tcp::TcpServer;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Counts are stable after this time without change: a worker publishes them every 20 ms.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// The same where the clients counted otherwise: on a busy machine a worker may wait this long for its CPU.
const SETTLED_UNEQUAL: Duration = Duration::from_secs(1);

/// A scaling experiment, ready to run.
pub struct Streams {
    /// The plan.
    pub plan: StreamsPlan,
    /// Where, for its document: every trial builds its own.
    pub bed: document::Bed,
    /// The executable of servers and generators: this program.
    pub program: PathBuf,
    /// Facts about the run for its document.
    pub facts: Head,
}

impl ScalingExperiment for Streams {
    type Kind = ByteStreams;

    fn planned(&self) -> StreamsReport {
        let (plan, request) = (&self.plan, &self.plan.request);
        let schema = request.protocol.facts().schema;
        let head = self.facts.begun(schema, Some(self.bed.clone()));
        let kind = ByteStreams {
            protocol: request.protocol,
            subject: request.subject.as_ref().map(|subject| subject.command.clone()),
            left_out: plan.left_out.clone(),
        };
        Report::planned((head, kind), plan, &plan.steps, &request.settings.steering)
    }

    fn check(&self, shape: &Shape) -> anyhow::Result<()> {
        match shape.traffic.of_bytes() {
            None => drop(self.plan.http_load(shape)?),
            Some((direction, _)) => drop(self.plan.tcp_load(shape, direction)?),
        }
        Ok(())
    }

    fn measure(&mut self, running: &mut RunningTrial<'_>) -> anyhow::Result<(Trial, Option<Observed>)> {
        let plan = &self.plan;
        let shape = &plan.steps[running.turn.step];
        let subject = plan
            .subject(shape)
            .map(|subject| (subject, served_by_subject as fn(&_) -> _));
        let Some((direction, mode)) = shape.traffic.of_bytes() else {
            let clients = (plan.http_load(shape)?, of_http);
            return match subject {
                Some(subject) => measure::<Subject, HttpLoad>(self, running, subject, clients),
                None => {
                    let server = (plan.http_server(shape), served_http as fn(&_) -> _);
                    measure::<HttpServer, HttpLoad>(self, running, server, clients)
                }
            };
        };
        let steering = (shape.server == ServerKind::Exact).then_some(&plan.request.settings.steering);
        let clients = (plan.tcp_load(shape, direction)?, |loaded: &_| {
            of_tcp(loaded, steering)
        });
        match subject {
            Some(subject) => measure::<Subject, TcpLoad>(self, running, subject, clients),
            None => {
                let server = (plan.tcp_server(shape, mode), served_tcp as fn(&_) -> _);
                measure::<TcpServer, TcpLoad>(self, running, server, clients)
            }
        }
    }

    fn judge(&self, report: &mut StreamsReport) {
        for index in 0..report.steps.len() {
            report.steps[index].found.limit = verdict::of_step(report, index, &self.plan);
        }
        report.limit = verdict::of_report(report);
    }
}

/// Reads the counts out of a server's report.
type Counted<S> = fn(&<S as Server>::Served) -> ServerCounts;

/// Runs one trial: plans of server and clients, and what their reports count.
fn measure<S: Server, G: Generator>(
    experiment: &Streams,
    running: &mut RunningTrial<'_>,
    (serve, served): (S::Plan, Counted<S>),
    (load, loaded): (G::Plan, impl FnOnce(&G::Report) -> ClientCounts),
) -> anyhow::Result<(Trial, Option<Observed>)> {
    let (plan, program) = (&experiment.plan, &experiment.program);
    let (shape, run_s) = (&plan.steps[running.turn.step], plan.request.settings.duration_s);
    let bed = Bed::build(&plan.bed)?;
    let (kernel_before, watch) = (KernelMemory::take(), running.watch());
    let mut server = ServerProcess::<S>::start(program, &bed.server, &serve, watch.interrupt)?;
    let processes = ServerProcesses::of(&server);
    let server_memory_before = processes.family()?.memory_bytes();
    let begun = Readings::take(&bed, processes, None)?;
    let generator = LoadProcess::<G>::start(program, &bed.client)?;
    let pid = generator.pid();
    let (mut opened, mut sent, mut observation, mut seen) = (None, None, None, None);
    let (report, memory, ended) = thread::scope(|scope| {
        let (ended, has_ended) = mpsc::channel::<()>();
        let (mut has_ended, mut reading) = (Some(has_ended), None);
        let take = || memory::take(&bed, processes, pid, server_memory_before, &kernel_before);
        let report = generator.run(&load, watch, |moment| match moment {
            Moment::Opened => {
                opened = Some(Readings::take(&bed, processes, Some(pid)));
                observation = processes.observe(plan, shape, pid);
                // Reading it stops a process for a moment, and with fewer connections there is nothing to share out.
                let many = shape.connections >= FEWEST_TO_SHARE;
                let has_ended = has_ended.take().filter(|_| many);
                reading = has_ended.map(|ended| scope.spawn(move || in_the_middle(&ended, run_s, take)));
            }
            Moment::Sent => {
                sent = Some(Readings::take(&bed, processes, Some(pid)));
                seen = (observation.take()).and_then(|begun: Observation| begun.finish(running.turn.round));
            }
        });
        let ended_at = Instant::now();
        drop(ended);
        let memory = reading.and_then(|reading| joined(reading.join()));
        (report, memory, ended_at)
    });
    let loaded = loaded(&report?);
    let served = match settled(&mut server, served, &loaded) {
        Ok(report) => served(&report),
        Err(error) => return Ok((account::unserved(running, loaded.trial, error)?, None)),
    };
    let unopened = || anyhow!(account::unopened(&loaded, &served));
    let (opened, sent) = opened.zip(sent).ok_or_else(unopened)?;
    let evidence = Evidence {
        begun,
        opened: opened?,
        sent: sent?,
        served,
        loaded,
        memory,
        ended,
        stopped: processes.are_stopped(),
    };
    running.clocked(evidence.sent.cpus.since(&evidence.opened.cpus));
    Ok((account::trial(plan, running.turn, evidence), seen))
}

/// Takes a reading in the middle of a run of so many seconds, unless the run has ended by then.
fn in_the_middle<T>(has_ended: &mpsc::Receiver<()>, run_s: f64, take: impl FnOnce() -> T) -> Option<T> {
    let over = has_ended.recv_timeout(Duration::from_secs_f64(run_s / 2.0));
    (over == Err(mpsc::RecvTimeoutError::Timeout)).then(take)
}

impl ServerProcesses {
    fn of<S: Server>(server: &ServerProcess<S>) -> Self {
        Self {
            first: server.pid(),
            keeps: S::STARTS_PROCESSES,
        }
    }

    /// Starts to observe these processes and the generator; `None` if they cannot be read, because they have ended. Call
    /// it after a reading of the CPUs: it looks up symbols, while the server already serves.
    fn observe(self, plan: &StreamsPlan, shape: &Shape, generator: u32) -> Option<Observation> {
        let processes = Processes {
            server: self.family().ok()?.members.into_keys().collect(),
            generator,
        };
        let observe = plan.request.settings.observe;
        Some(Observation::start(observe, plan.cpus(shape), &processes))
    }
}

/// Waits until the server has counted what the clients did, or its counts are stable; returns its last report.
fn settled<S: Server>(
    server: &mut ServerProcess<S>,
    served: Counted<S>,
    loaded: &ClientCounts,
) -> anyhow::Result<S::Served> {
    let counts = |report: &S::Served| {
        let counts = served(report);
        (counts.requests, counts.accepted, counts.bytes)
    };
    let client_bytes = (loaded.trial.sent_bytes, loaded.trial.received_bytes);
    let settled = server.settled(counts, |(requests, accepted, bytes), still| {
        let sum = |of: fn(&(u64, u64)) -> u64| bytes.iter().map(of).sum::<u64>();
        let same_requests = requests.is_none() || *requests == loaded.requests_sent;
        let same_bytes = bytes.is_empty() || (sum(|bytes| bytes.0), sum(|bytes| bytes.1)) == client_bytes;
        let enough = match same_requests && same_bytes {
            true => SETTLED_AFTER,
            false => SETTLED_UNEQUAL,
        };
        // A subject does not count.
        Ok(accepted.is_empty() || still > enough)
    });
    // A server that is stopped does not report, either.
    settled.map_err(|error| match &loaded.failed_because {
        Some(lost) => anyhow!("{lost}; {error}"),
        None => error,
    })
}
