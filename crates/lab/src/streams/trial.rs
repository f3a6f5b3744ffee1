//! One trial of one step: a bed, a server and clients of its own; readings when every connection is open, in the middle, and
//! when the last request has been made.

use super::account::{self, Evidence, Readings};
use super::client::ClientOfTrial;
use super::document::{Memory, Server, Trial};
use super::memory::{self, KernelMemory};
use super::run::{Streams, StreamsError};
use super::server::ServerOfTrial;
use crate::document::TrialStatus;
use crate::experiment::Trying;
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_load::Moment;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Connections from which on memory is read while they are held: with fewer there is nothing to share out, and reading it
/// stops a process for a moment.
const FEWEST_FOR_MEMORY: u64 = 1_000;

/// How often the server is asked whether it has counted everything.
const SETTLING_LOOK: Duration = Duration::from_millis(5);

/// How long the server's counts must stand still: a worker publishes them every 20 ms.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// The longest that settling may take.
const LONGEST_SETTLING: Duration = Duration::from_secs(5);

/// Runs one trial.
pub(super) fn run(experiment: &Streams, trying: &mut Trying<'_>) -> Result<Trial, StreamsError> {
    let plan = &experiment.plan;
    let shape = &plan.steps[trying.turn.step];
    let load = plan.clients(shape)?;
    let bed = Bed::build(&plan.bed)?;
    let kernel_before = KernelMemory::take();
    let mut server = ServerOfTrial::start(&plan.serving(shape), &experiment.program, &bed.server)?;
    let processes = server.processes();
    let server_memory_before = processes.family()?.memory_bytes();
    let begun = Readings::take(&bed, processes)?;
    let generator = ClientOfTrial::start(load, &experiment.program, &bed.client)?;
    let pid = generator.pid();
    let steering = (shape.server == Server::Exact).then_some(&plan.request.steering);
    let (mut opened, mut sent) = (None, None);
    let middle = Duration::from_secs_f64(plan.request.duration_s / 2.0);
    let (loaded, memory) = thread::scope(|scope| {
        let (ended, has_ended) = mpsc::channel::<()>();
        let mut has_ended = Some(has_ended);
        let mut reading = None;
        let (bed, kernel_before) = (&bed, &kernel_before);
        let loaded = generator.run(steering, trying.interrupt, |moment| match moment {
            Moment::Opened => {
                opened = Some(Readings::take(bed, processes));
                if let Some(has_ended) = has_ended
                    .take()
                    .filter(|_| shape.connections >= FEWEST_FOR_MEMORY)
                {
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
        (loaded, reading.and_then(joined))
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
        (trial.tried.status, trial.tried.why) = (TrialStatus::Interrupted, Some("ended early".to_owned()));
    }
    Ok(trial)
}

/// Waits until the server's counts stand still; tells them.
fn settle(server: &mut ServerOfTrial) -> Result<super::server::ServerCounts, StreamsError> {
    let started = Instant::now();
    let (mut counts, mut changed) = (server.counts()?, started);
    while counts.is_told() && changed.elapsed() < SETTLED_AFTER && started.elapsed() < LONGEST_SETTLING {
        thread::sleep(SETTLING_LOOK);
        let now = server.counts()?;
        if !now.stands_at(&counts) {
            changed = Instant::now();
        }
        counts = now;
    }
    Ok(counts)
}

fn reading(taken: Option<Result<Readings, HostError>>) -> Result<Readings, StreamsError> {
    let missing = HostError::Missing {
        place: "the generator",
        what: "sign that its connections are open".to_owned(),
    };
    Ok(taken.unwrap_or(Err(missing))?)
}

fn joined(reading: thread::ScopedJoinHandle<'_, Option<Memory>>) -> Option<Memory> {
    reading
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
