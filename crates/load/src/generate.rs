//! What all generators have in common: a plan in, a report of what was sent and what came of it out.

use crate::Needs;
use corelane_host::memory::MemoryPolicy;
use corelane_worker::crew::{Crew, CrewError, Job, ReadyCell};
use corelane_worker::engine::{EngineKind, EngineSettings};
use corelane_worker::{Time, WorkerSettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::time::Duration;

/// A generator that is running. Dropping it ends it.
pub trait Generator: Sized {
    /// What it is started with.
    type Plan: Serialize + DeserializeOwned;
    /// Its report.
    type Loaded: Serialize + DeserializeOwned;
    /// Why it could not start or go on.
    type Error: Error + Send + Sync + 'static;
    /// The name of this kind of generator between processes.
    const KIND: &'static str;

    /// What a run of the plan needs of this machine.
    fn needs(plan: &Self::Plan) -> Needs;

    /// Starts generating.
    ///
    /// # Errors
    /// Why it cannot; nothing is left running then.
    fn start(plan: Self::Plan) -> Result<Self, Self::Error>;

    /// Waits at most `timeout` for the run's end, and returns whether it has ended. Call it again and again: stages of the
    /// run may begin in it.
    fn wait(&mut self, timeout: Duration) -> bool;

    /// The last point that it has come to.
    fn reached(&self) -> Option<Moment>;

    /// Ends the run early; answers under way are still waited for.
    fn stop(&self);

    /// Waits for the end and adds up.
    ///
    /// # Errors
    /// What ended a worker early.
    fn finish(self) -> Result<Self::Loaded, Self::Error>;
}

/// A point of a generator's run at which counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Every connection that can be is open; measuring begins.
    Opened,
    /// The last datagram or request is sent; it may still wait for answers. Of bytes, the last has arrived.
    Sent,
}

/// Starts workers, each on its CPU and, where it says so, with a descriptor table of its own: `job` makes what the worker of a
/// place does.
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
