//! The workers of a running generator: started together, sampled together, stopped together.
//!
//! In: where each worker runs, and its job. Out: what the workers publish meanwhile, as one snapshot and as a rate over
//! time; their outcomes are those of the crew.

use crate::live::{self, LiveWorkers, Snapshot};
use corelane_host::memory::MemoryPolicy;
use corelane_measure::metric::Metric;
use corelane_measure::time_series::Recorder;
use corelane_worker::crew::{Crew, CrewError, Job, ReadyCell};
use corelane_worker::engine::{EngineKind, EngineSettings};
use corelane_worker::memory::PageLocations;
use corelane_worker::worker_memory::WorkerMemory;
use corelane_worker::{Time, WorkerSettings};

/// The workers of a generator. Dropping it stops them.
pub(crate) struct Team<C, Outcome> {
    pub(crate) crew: Crew<Outcome>,
    pub(crate) live: LiveWorkers<C>,
    pub(crate) over_time: Recorder,
    /// Of each worker that has an engine.
    ready: Vec<ReadyCell>,
}

impl<C: Default, Outcome: Send + 'static> Team<C, Outcome> {
    /// Workers on these CPUs, before they start.
    pub(crate) fn on(cpus: impl Iterator<Item = u32>) -> Self {
        Self {
            crew: Crew::new(),
            live: live::workers(cpus),
            over_time: Recorder::default(),
            ready: Vec::new(),
        }
    }

    /// Starts the workers, those with `own_descriptors` with a descriptor table of their own; `job` creates the work of
    /// the worker at a given place.
    pub(crate) fn start<J: Job<Outcome = Outcome>>(
        &mut self,
        own_descriptors: impl Iterator<Item = bool>,
        memory: MemoryPolicy,
        engine: &(EngineKind, EngineSettings),
        job: impl Fn(usize, Time) -> J + Clone + Send + 'static,
    ) -> Result<(), CrewError> {
        for (place, own_descriptors) in own_descriptors.enumerate() {
            let thread = WorkerSettings {
                memory,
                own_descriptors,
                ..WorkerSettings::new(format!("load {place}"), self.live[place].cpu)
            };
            let job = job.clone();
            let job = move |_, now| job(place, now);
            let ready = self.crew.start(thread, Vec::new(), engine.clone(), job)?;
            self.ready.push(ready);
        }
        Ok(())
    }

    /// The live data of all workers, as of their last snapshots; its durations are recorded from `timed_from` on, if
    /// they are those of events.
    pub(crate) fn snapshot(&mut self, timed_from: Option<Time>) -> Snapshot {
        let snapshot = Snapshot::sum(self.live.iter().map(|live| live.snapshot.last()));
        if let Some(start) = timed_from.filter(|start| snapshot.at > *start) {
            self.over_time
                .times(snapshot.at.since(start).as_secs_f64(), &snapshot.times);
        }
        snapshot
    }

    /// Records how fast the sum of these counts grows, until the last worker has sent its last.
    pub(crate) fn record(&mut self, start: Time, counted: &[Metric<C>]) {
        let now = Time::now();
        let at_s = now.since(start).as_secs_f64();
        if now > start && !self.is_draining() {
            let totals = counted.iter().map(|counted| live::total(&self.live, counted));
            self.over_time.count(at_s, || totals.sum());
        }
    }

    /// Whether every worker has sent its last.
    pub(crate) fn is_draining(&self) -> bool {
        self.live.iter().all(|live| live.draining.get() > 0)
    }

    /// Memory placement of a worker, and of its buffers; `None` if it has no engine yet.
    pub(crate) fn memory(
        &self,
        place: usize,
        (memory, buffers): (MemoryPolicy, Option<MemoryPolicy>),
        pages: &PageLocations,
    ) -> Option<WorkerMemory> {
        let ready = self.ready.get(place)?.get()?;
        Some(ready.buffers.report(memory, buffers, pages))
    }
}
