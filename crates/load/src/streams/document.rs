//! Results of a generator over streams: the final document, and the merge of several.

use super::counts::{Counts, OwnCounts, Tally};
use super::plan::StreamPlan;
use super::protocol::StreamProtocol;
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

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
    /// What limited the generator, if anything did.
    pub limited_by: Option<String>,
    /// Why the run failed as a whole: no connection could be opened, or no request succeeded.
    #[serde(default)]
    pub failed_because: Option<String>,
    /// Whether the run was stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Longest time that answers of a closed loop were batched before processing, in microseconds; `None` without
    /// batching. Latencies include it.
    #[serde(default)]
    pub gather_us: Option<f64>,
    /// Why the results show the generator's own limit: the schedule was missed although connections were idle, or a
    /// worker stood still. `None` otherwise, also if the server kept every connection busy.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Notes required to interpret the figures.
    pub notes: Vec<String>,
    /// Resources used by the generator.
    pub client: ClientCost,
    /// Successful requests per second over time, or bytes of transfers; and the latencies of requests.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Each phase.
    pub phases: Vec<PhaseReport>,
    /// Each pool.
    pub pools: Vec<PoolCounts<P::Counts>>,
    /// Each worker.
    pub workers: Vec<WorkerCounts>,
    /// The plan that ran.
    pub plan: StreamPlan<P>,
}

impl<P: StreamProtocol> StreamLoadReport<P> {
    /// Name and version of the document format.
    pub const SCHEMA: &'static str = P::SCHEMA;
}

/// The merged results of several generators that ran at the same time, on one machine or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamsMerged<C> {
    /// `corelane/merged-NAME/1`, such as `corelane/merged-http/1`.
    pub schema: String,
    /// Number of merged documents.
    pub documents: usize,
    /// Over all.
    #[serde(flatten)]
    pub counts: Counts<C>,
    /// Successful requests per second, as if all had run at the same time.
    pub requests_per_second: f64,
    /// Why each generator was limited or failed, if so.
    pub limited_by: Vec<String>,
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
    /// Successful requests in it.
    pub ok: u64,
    /// Failed requests in it.
    pub failed: u64,
}

/// Results of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCounts<C> {
    /// Its name.
    pub name: String,
    /// The address of its server.
    pub target: SocketAddr,
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

impl<C: OwnCounts> StreamsMerged<C> {
    /// Merges documents.
    #[must_use]
    pub fn of<P: StreamProtocol<Counts = C>>(documents: &[StreamLoadReport<P>]) -> Self {
        let mut pools: Vec<PoolCounts<C>> = Vec::new();
        for pool in documents.iter().flat_map(|document| &document.pools) {
            let same = |found: &&mut PoolCounts<C>| (&found.name, found.target) == (&pool.name, pool.target);
            match pools.iter_mut().find(same) {
                Some(found) => found.tally = Tally::sum([&found.tally, &pool.tally]),
                None => pools.push(pool.clone()),
            }
        }
        let mut counts = Tally::sum(pools.iter().map(|pool| &pool.tally)).counts;
        // Fields missing in documents of earlier versions.
        let (mut open, mut unanswered) = (0, 0);
        for document in documents {
            open += document.counts.connections.open_at_end;
            unanswered += document.counts.connections.open_unanswered;
        }
        (counts.connections.open_at_end, counts.connections.open_unanswered) = (open, unanswered);
        let first = documents.first().map_or("", |document| &document.schema);
        Self {
            schema: first.replace("loaded", "merged"),
            documents: documents.len(),
            counts,
            requests_per_second: documents
                .iter()
                .map(|document| document.requests_per_second)
                .sum(),
            limited_by: documents
                .iter()
                .filter_map(|document| document.failed_because.as_ref().or(document.limited_by.as_ref()))
                .cloned()
                .collect(),
            pools,
        }
    }
}
