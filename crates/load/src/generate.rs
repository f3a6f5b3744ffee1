//! Interface shared by all generators: takes a plan, returns a report of what was sent and received.

use crate::live::{self, LiveWorkers, Snapshot};
use crate::{Needs, Running};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::time::Duration;

/// A running generator. Dropping it stops it.
pub trait Generator: Sized {
    /// The plan it runs.
    type Plan: Serialize + DeserializeOwned;
    /// Its report.
    type Report: Serialize + DeserializeOwned;
    /// The error if it cannot start or continue.
    type Error: Error + Send + Sync + 'static;
    /// What a worker counts while it runs.
    type Counts: Send + Sync + 'static;
    /// Name of this kind of generator, in its metrics and between processes.
    const KIND: &'static str;
    /// The live counts: those whose name ends in `_total` are [`Snapshot::counts`], the others [`Snapshot::levels`].
    const COUNTED: &'static [Metric<Self::Counts>];
    /// [`Snapshot::times`]; `None` if nothing is timed.
    const TIMED: Option<&'static Metric<Histogram>>;
    /// Failures by cause; and if connections are opened, attempts that failed.
    const FAILED: &'static [Metric<u64>];

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

    /// What each worker publishes.
    fn live_workers(&self) -> &LiveWorkers<Self::Counts>;

    /// The live data of all workers, as of their last snapshots; the final ones once the run has ended.
    fn snapshot(&mut self) -> Snapshot;

    /// Ends the run early; pending answers are still awaited.
    fn stop(&self);

    /// Waits for the end and sums the results.
    ///
    /// # Errors
    /// The error that ended a worker early.
    fn finish(self) -> Result<Self::Report, Self::Error>;

    /// The sum of a live count over all workers.
    fn total(&self, counted: &Metric<Self::Counts>) -> u64 {
        live::total(self.live_workers(), counted)
    }

    /// The metrics of the run so far, with the data of this [`snapshot`](Self::snapshot).
    fn running(&self, snapshot: &Snapshot) -> Running<Self::Counts> {
        let (mut failures, not_opened) = (snapshot.errors.clone(), snapshot.not_opened.named(""));
        failures.extend(snapshot.failures.named(""));
        Running {
            kind: Self::KIND,
            counted: Self::COUNTED,
            live: self.live_workers().clone(),
            times: Self::TIMED.map(|metric| (metric, snapshot.times.clone())),
            failed: Self::FAILED.iter().zip([failures, not_opened]).collect(),
        }
    }

    /// The names of [`Snapshot::counts`], with units.
    #[must_use]
    fn units() -> Vec<(&'static str, &'static str)> {
        let counts = Self::COUNTED.iter().filter(|metric| live::is_total(metric));
        counts
            .map(|metric| (live::short_name(metric), metric.unit))
            .collect()
    }
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
