//! What the plans of the scaling experiments share: which steps are measured, and the settings of every step.

use crate::document::as_json;
use crate::observe::Observe;
use crate::placing::Placement;
use crate::scale::steps::Kind;
use corelane_host::memory::MemoryPolicy;
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, AlignBy, SourceRequest, WorkerRequest};
use corelane_report::diff::{self, Fields};
use corelane_rss::Steering;
use corelane_worker::engine::EngineKind;
use serde::Serialize;
use serde_json::Value;
use std::net::SocketAddr;

/// Which steps are measured, and how often. It does not change what a step measures: the shape of a step has the values
/// that select it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Selection {
    /// Placements of clients. `None`: every model aligned, and exact steering crossed as the control.
    pub placements: Option<Vec<Placement>>,
    /// Whether this is a quick run: one and all buckets active instead of every number. Its report says that it is
    /// indicative.
    pub quick: bool,
    /// Trials of each step.
    pub rounds: u32,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Largest share of CPU time that other machines on the same hardware may use in a trial; above it the trial is
    /// spoilt. A tenth exceeds the differences between models that the lab measures.
    pub max_steal: f64,
}

/// Settings of every step.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Key, table, and the CPU of each bucket; for a subject, its CPUs.
    pub steering: Steering,
    /// Seconds of one trial.
    pub duration_s: f64,
    /// The requested engine.
    pub engine: Option<EngineKind>,
    /// NUMA policy of all workers' memory, in our server and in clients.
    pub memory: MemoryPolicy,
    /// NUMA policy of the buffers, of our server at least, if different.
    pub buffer_memory: Option<MemoryPolicy>,
    /// The observations during each trial.
    pub observe: Observe,
}

impl Settings {
    /// The workers of the clients of the first buckets, each on its CPU of `cpus`, as their steering document says.
    pub(crate) fn clients(&self, cpus: Vec<u32>, descriptor_limit: usize) -> WorkerRequest {
        let (mut steering, active) = (self.steering.clone(), cpus.len());
        steering.cpus[..active].copy_from_slice(&cpus);
        WorkerRequest {
            steering: Some(steering).into(),
            buckets: Some((0..active as u16).collect()),
            cpus,
            descriptor_limit,
        }
    }
}

/// So many sources of this pool, aligned to the buckets of a server.
pub(crate) fn sources(server: SocketAddr, clients: &Pool, sockets: usize) -> SourceRequest {
    SourceRequest {
        target: server.into(),
        pool: Some(clients.clone()),
        align: Align::Bucket,
        by: AlignBy::Forward,
        sockets,
    }
}

/// Fields of a resolved plan that follow from the selection, or count changes of the table.
const RESOLVED: [&str; 4] = ["bed.connections", "left_out", "steering.generation", "steps"];

/// The fields of a plan that all steps have in common: all but those of its selection.
pub(crate) fn of_plan<K: Kind>(plan: &Value) -> Fields {
    let selection = as_json(&K::Selection::default());
    let mut fields = diff::fields_without(plan, &RESOLVED);
    fields.retain(|name, _| selection.get(name).is_none());
    fields
}
