//! Results of a generator over streams: the final document, and the merge of several.

use super::counts::{Counts, RequestCounts, Tally};
use super::plan::StreamPlan;
use super::protocol::StreamProtocol;
use crate::document::{LoadReport, RunOutcome};
use corelane_measure::counters::Counters;
use corelane_worker::engine::Remote;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct StreamLoadReport<P: StreamProtocol> {
    /// `corelane/loaded-NAME/1`, such as `corelane/loaded-http/1`.
    pub schema: String,
    /// `closed`, `open`, or `mixed` where pools differ.
    pub model: String,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine.
    pub engine_reason: Option<String>,
    /// Seconds spent opening connections, before any request.
    pub opening_s: f64,
    /// Seconds during which requests were made.
    pub running_s: f64,
    /// Over all pools.
    #[serde(flatten)]
    pub counts: Counts<P::Counts>,
    /// Successful requests per second.
    pub requests_per_second: f64,
    /// How the run ended.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// Longest time that answers of a closed loop were batched before processing, in microseconds; `None` without
    /// batching. Latencies include it.
    #[serde(default)]
    pub gather_us: Option<f64>,
    /// Why the results show the generator's own limit: the schedule was missed although connections were idle, or a
    /// worker stood still. `None` otherwise, also if the server kept every connection busy.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Resources used by the generator.
    pub client: ClientCost,
    /// Each phase.
    pub phases: Vec<PhaseReport>,
    /// Each pool.
    pub pools: Vec<PoolCounts<P::Counts>>,
    /// Each worker.
    pub workers: Vec<WorkerCounts>,
    /// The plan that ran.
    pub plan: StreamPlan<P>,
}

/// What several runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamSum<C> {
    /// Over all.
    #[serde(flatten)]
    pub counts: Counts<C>,
    /// Successful requests per second, as if all had run at the same time.
    pub requests_per_second: f64,
    /// Pools, merged by name and target.
    pub pools: Vec<PoolCounts<C>>,
}

/// One phase, sampled from outside every few milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Seconds from the start of the run to the start of the phase.
    pub began_s: f64,
    /// Seconds from the start of the run to the end of the phase.
    pub ended_s: f64,
    /// Requests that began in it, if it has a number of them; the others count where they ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// Requests that succeeded in it.
    pub ok: u64,
    /// Requests that failed in it.
    pub failed: u64,
}

/// Results of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCounts<C> {
    /// Its name.
    pub name: String,
    /// The address of its server.
    pub target: Remote,
    /// `closed` or `open`.
    pub model: String,
    /// Its counts and times.
    #[serde(flatten)]
    pub tally: Tally<C>,
}

/// Resources used by the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCost {
    /// CPU seconds of all workers while requests were made.
    pub cpu_s: f64,
    /// Of those, in user mode.
    pub user_s: f64,
    /// Of those, in the kernel.
    pub system_s: f64,
    /// Successful requests per CPU second of the client.
    pub requests_per_cpu_second: Option<f64>,
    /// Resident bytes of this process before connections were opened.
    pub resident_before_bytes: Option<u64>,
    /// Resident bytes with all connections open.
    pub resident_open_bytes: Option<u64>,
    /// The difference per open connection.
    pub bytes_a_connection: Option<f64>,
}

/// Results of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerCounts {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket that its connections land on, if so planned.
    pub bucket: Option<u16>,
    /// Number of its connections.
    pub connections: u64,
    /// Its successful requests.
    pub ok: u64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Seconds that it was runnable while other threads had its CPU; 0 if the kernel does not report it.
    #[serde(default)]
    pub waited_for_cpu_s: f64,
    /// Seconds in which it neither ran nor waited for its CPU although it was due.
    #[serde(default)]
    pub stood_still_s: f64,
    /// NUMA placement of its memory; `None` in documents of versions that did not record it.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

impl<P: StreamProtocol> LoadReport for StreamLoadReport<P> {
    const SCHEMA: &'static str = P::SCHEMA;
    type Sum = StreamSum<P::Counts>;

    fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    fn outcome_mut(&mut self) -> &mut RunOutcome {
        &mut self.outcome
    }

    fn check(&self) -> Result<(), String> {
        let pools = self.pools.iter().map(|pool| &pool.tally.counts.requests);
        let all = &self.counts.requests;
        pools.clone().chain([all]).try_for_each(RequestCounts::check)?;
        match *all == RequestCounts::sum(pools) {
            true => Ok(()),
            false => Err("the requests are not the sum of the pools' requests".to_owned()),
        }
    }

    fn sum(reports: &[Self]) -> StreamSum<P::Counts> {
        let mut pools: Vec<PoolCounts<P::Counts>> = Vec::new();
        for pool in reports.iter().flat_map(|report| &report.pools) {
            let same =
                |found: &&mut PoolCounts<_>| (&found.name, &found.target) == (&pool.name, &pool.target);
            match pools.iter_mut().find(same) {
                Some(found) => found.tally = Tally::sum([&found.tally, &pool.tally]),
                None => pools.push(pool.clone()),
            }
        }
        let mut counts = Tally::sum(pools.iter().map(|pool| &pool.tally)).counts;
        // Fields missing in documents of earlier versions.
        let (mut open, mut unanswered) = (0, 0);
        for report in reports {
            open += report.counts.connections.open_at_end;
            unanswered += report.counts.connections.open_unanswered;
        }
        (counts.connections.open_at_end, counts.connections.open_unanswered) = (open, unanswered);
        StreamSum {
            counts,
            requests_per_second: reports.iter().map(|report| report.requests_per_second).sum(),
            pools,
        }
    }
}
