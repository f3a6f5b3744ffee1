//! Interface shared by all generators: takes a plan, returns a report of what was sent and received.

use crate::Needs;
use crate::showing::{Seen, Showing};
use corelane_host::memory::MemoryPolicy;
use corelane_worker::crew::{Crew, CrewError, Job, ReadyCell};
use corelane_worker::engine::{EngineKind, EngineSettings};
use corelane_worker::{Time, WorkerSettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::time::Duration;

/// A running generator. Dropping it stops it.
pub trait Generator: Sized {
    /// The plan it runs.
    type Plan: Serialize + DeserializeOwned;
    /// Its report.
    type Loaded: Serialize + DeserializeOwned;
    /// The error if it cannot start or continue.
    type Error: Error + Send + Sync + 'static;
    /// Name of this kind of generator, used between processes.
    const KIND: &'static str;
    /// What [`Seen::counts`] counts, with units.
    const COUNTED: &'static [(&'static str, &'static str)];
    /// The name of [`Seen::times`]; empty if nothing is timed.
    const TIMED: &'static str;

    /// What a run of the plan requires of this machine.
    fn needs(plan: &Self::Plan) -> Needs;

    /// Starts generating.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    fn start(plan: Self::Plan) -> Result<Self, Self::Error>;

    /// Waits at most `timeout` for the end of the run; returns whether it has ended. Call it repeatedly: it also starts
    /// stages of the run.
    fn wait(&mut self, timeout: Duration) -> bool;

    /// The last moment reached.
    fn reached(&self) -> Option<Moment>;

    /// Where each worker leaves its live data.
    fn shows(&self) -> impl Iterator<Item = &Showing>;

    /// The live data of all workers, as of their last snapshots; the final ones once the run has ended.
    fn seen(&mut self) -> Seen;

    /// Ends the run early; pending answers are still awaited.
    fn stop(&self);

    /// Waits for the end and sums the results.
    ///
    /// # Errors
    /// The error that ended a worker early.
    fn finish(self) -> Result<Self::Loaded, Self::Error>;
}

/// A moment of a run at which counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// All connections are open; measurement begins.
    Opened,
    /// The last datagram or request was sent; its answer may be pending. For byte streams: the last byte has arrived.
    Sent,
}

/// Starts the workers, each on its CPU and, if configured, with its own descriptor table; `job` creates the work of the
/// worker at a given index.
pub(crate) fn start_workers<J: Job>(
    crew: &mut Crew<J::Outcome>,
    workers: impl Iterator<Item = (u32, bool)>,
    memory: MemoryPolicy,
    engine: &(EngineKind, EngineSettings),
    job: impl Fn(usize, Time) -> J + Clone + Send + 'static,
) -> Result<Vec<ReadyCell>, CrewError> {
    let start = |(place, (cpu, own_descriptors))| {
        let thread = WorkerSettings {
            memory,
            own_descriptors,
            ..WorkerSettings::new(format!("load {place}"), cpu)
        };
        let job = job.clone();
        crew.start(thread, Vec::new(), engine.clone(), move |_, now| job(place, now))
    };
    workers.enumerate().map(start).collect()
}
