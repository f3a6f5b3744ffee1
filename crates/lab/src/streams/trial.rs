//! One trial of one step: a bed, a server and clients of its own; readings when every connection is open, in the
//! middle, and when the last request has been made.

use super::account::{self, Evidence, Readings};
use super::document::{ByteStreams, FEWEST_TO_SHARE, Shape, StreamsReport, Trial};
use super::memory::{self, KernelMemory};
use super::plan::StreamsPlan;
use super::server::{ServerCounts, ServerOfTrial};
use super::verdict;
use crate::child::ChildError;
use crate::document::{self, Head, RunFacts, TrialStatus, as_json};
use crate::error::LabError;
use crate::experiment::Trying;
use crate::trials::{Outline, Trials};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_load::Moment;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between polls of the server's counts.
const SETTLING_LOOK: Duration = Duration::from_millis(5);

/// Counts are stable after this time without change: a worker publishes them every 20 ms.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Timeout of settling.
const LONGEST_SETTLING: Duration = Duration::from_secs(5);

/// A scaling experiment, ready to run.
pub struct Streams {
    /// The plan.
    pub plan: StreamsPlan,
    /// Where, for its document: every trial builds its own.
    pub bed: document::Bed,
    /// The executable of servers and generators: this program.
    pub program: PathBuf,
    /// Facts about the run for its document.
    pub facts: RunFacts,
}

impl Trials for Streams {
    type Kind = ByteStreams;

    fn outline(&self) -> Outline<'_, ByteStreams> {
        let request = &self.plan.request;
        Outline {
            head: Head {
                bed: Some(self.bed.clone()),
                ..Head::new(request.protocol.schema(), &self.facts, None)
            },
            kind: ByteStreams {
                protocol: request.protocol,
                subject: request.subject.as_ref().map(|subject| subject.command.clone()),
                left_out: self.plan.left_out.clone(),
            },
            plan: as_json(&self.plan),
            steering: &request.steering,
            steps: &self.plan.steps,
        }
    }

    fn check(&self, shape: &Shape) -> Result<(), LabError> {
        self.plan.clients(shape).map(drop)
    }

    fn measure(&mut self, trying: &mut Trying<'_>, _report: &mut StreamsReport) -> Result<Trial, LabError> {
        run(self, trying)
    }

    fn judge(&self, report: &mut StreamsReport) {
        for index in 0..report.steps.len() {
            report.steps[index].found.limit = verdict::of_step(report, index, &self.plan);
        }
        report.limit = verdict::of_report(report);
    }
}

/// Runs one trial.
fn run(experiment: &Streams, trying: &mut Trying<'_>) -> Result<Trial, LabError> {
    let plan = &experiment.plan;
    let shape = &plan.steps[trying.turn.step];
    let load = plan.clients(shape)?;
    let bed = Bed::build(&plan.bed)?;
    let kernel_before = KernelMemory::take();
    let mut server = ServerOfTrial::start(plan, shape, &experiment.program, &bed.server)?;
    let processes = server.processes;
    let server_memory_before = processes.family()?.memory_bytes();
    let begun = Readings::take(&bed, processes)?;
    let generator = load(&experiment.program, &bed.client)?;
    let pid = generator.pid;
    let (mut opened, mut sent) = (None, None);
    let middle = Duration::from_secs_f64(plan.request.duration_s / 2.0);
    let (loaded, memory) = thread::scope(|scope| {
        let (ended, has_ended) = mpsc::channel::<()>();
        let mut has_ended = Some(has_ended);
        let mut reading = None;
        let (bed, kernel_before) = (&bed, &kernel_before);
        let loaded = (generator.run)(trying.interrupt, &mut |moment| match moment {
            Moment::Opened => {
                opened = Some(Readings::take(bed, processes));
                // Reading it stops a process for a moment, and with fewer connections there is nothing to share out.
                let many = shape.connections >= FEWEST_TO_SHARE;
                if let Some(has_ended) = has_ended.take().filter(|_| many) {
                    reading = Some(scope.spawn(move || {
                        let over = has_ended.recv_timeout(middle);
                        let runs = over == Err(mpsc::RecvTimeoutError::Timeout);
                        runs.then(|| memory::take(bed, processes, pid, server_memory_before, kernel_before))
                    }));
                }
            }
            Moment::Sent => sent = Some(Readings::take(bed, processes)),
        });
        drop(ended);
        let joined = reading.map(|reading: thread::ScopedJoinHandle<'_, _>| reading.join());
        let memory = joined.map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (loaded, memory.flatten())
    });
    let loaded = loaded?;
    let evidence = Evidence {
        begun,
        opened: reading(opened)?,
        sent: reading(sent)?,
        served: settle(&mut server)?,
        loaded,
        memory,
    };
    trying.clocked(&evidence.opened.cpus, &evidence.sent.cpus);
    let mut trial = account::trial(plan, trying.turn, evidence);
    if trying.interrupted() {
        trial.tried.end(TrialStatus::Interrupted, "ended early");
    }
    Ok(trial)
}

/// Waits until the server's counts are stable, and returns them.
fn settle(server: &mut ServerOfTrial) -> Result<ServerCounts, ChildError> {
    let started = Instant::now();
    let (mut counts, mut changed) = ((server.counts)()?, started);
    while counts.is_told() && changed.elapsed() < SETTLED_AFTER && started.elapsed() < LONGEST_SETTLING {
        thread::sleep(SETTLING_LOOK);
        let now = (server.counts)()?;
        if !now.stands_at(&counts) {
            changed = Instant::now();
        }
        counts = now;
    }
    Ok(counts)
}

fn reading(taken: Option<Result<Readings, HostError>>) -> Result<Readings, HostError> {
    let missing = HostError::Missing {
        place: "the generator",
        what: "sign that its connections are open".to_owned(),
    };
    taken.unwrap_or(Err(missing))
}
