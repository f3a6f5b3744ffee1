//! The plan of a generator over streams: serialisable, with every source leased to one worker, so that workers need no
//! coordination.

use super::error::StreamLoadError;
use crate::pool::Pool;
use crate::sources::{self, Align, AlignBy, Lease, SourceRequest, Steerings, Transport, WorkerRequest};
use corelane_host::memory::MemoryPolicy;
use corelane_worker::engine::{
    Chosen, EngineKind, EngineSettings, MOST_ON_THE_RING, NoEngine, Remote, choose, choose_batching,
};
use corelane_worker::tls::Trust;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A fully resolved run over streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamPlan<P> {
    /// Client pools; each is counted separately.
    pub pools: Vec<PlannedPool<P>>,
    /// Phases, one after the other.
    pub phases: Vec<PlannedPhase>,
    /// Limit on requests over all phases, pools and workers; `None` for no limit.
    pub requests: Option<u64>,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// NUMA node of each worker's receive and send buffers; `None`: that of its other memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_memory: Option<MemoryPolicy>,
    /// The longest time that answers of a closed loop are batched before processing, in microseconds; 0 for no
    /// batching. See [`GATHER`].
    #[serde(default)]
    pub gather_us: u32,
    /// The steerings by which sources were aligned, to compare where connections land; empty for no comparison.
    #[serde(default, skip_serializing_if = "Steerings::is_empty")]
    pub steering: Steerings,
    /// Workers and their sources.
    pub workers: Vec<PlannedWorker>,
}

/// Default limit on batching the answers of a closed loop. Answers are batched for an eighth of the mean latency, which
/// grows with the queue of connections, and at most for this time: one sleep then serves several answers, instead of
/// one wakeup per answer. An answer is processed up to this much late. Open loops never batch.
pub const GATHER: Duration = Duration::from_micros(50);

/// A pool of identical clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPool<P> {
    /// Name in reports.
    pub name: String,
    /// The server address.
    pub target: Remote,
    /// TLS settings; `None` for plaintext.
    #[serde(default)]
    pub tls: Option<Trust>,
    /// When its requests are made.
    pub model: Model,
    /// Number of connections over all workers.
    pub connections: usize,
    /// Requests per connection before it is closed; `None` for no limit.
    pub requests_a_connection: Option<u32>,
    /// How slow or impatient its clients are.
    pub behaviour: Behaviour,
    /// The protocol of its connections.
    #[serde(flatten)]
    pub protocol: P,
}

/// How slow or impatient clients are; by default as fast as possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Bytes per second at which a connection reads an answer.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes per second at which a connection writes a request.
    pub write_bytes_per_second: Option<u64>,
    /// Share of requests that are aborted when their answer begins.
    pub abort_share: f64,
    /// Seconds before the first request of a connection.
    pub first_pause_s: f64,
}

/// A phase of a run: the active share of each pool, and the end condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPhase {
    /// Name in reports.
    pub name: String,
    /// Share of connections (closed loop) or of the rate (open loop) at its beginning.
    pub from: f64,
    /// Share at the end of its duration.
    pub to: f64,
    /// End condition.
    pub until: Until,
}

/// When requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Closed loop: each connection sends a request, waits for the answer, thinks, and repeats. A slow server gets
    /// fewer requests.
    Closed {
        /// Think time in seconds between an answer and the next request.
        think_s: f64,
    },
    /// Open loop: a rate over all workers, at times fixed in advance.
    Open {
        /// Requests per second.
        per_second: f64,
    },
}

impl Model {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
        }
    }
}

/// When a phase ends: at the first limit reached, or on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// After this many seconds.
    pub duration_s: Option<f64>,
    /// After exactly this many requests, over all workers, once all that began have ended.
    pub requests: Option<u64>,
    /// After this many failed requests: none begins after the last of them, and those that began are awaited.
    pub failures: Option<u64>,
}

/// Timeouts in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeouts {
    /// From the first connect attempt to an open connection, including the TLS handshake.
    pub connect_s: f64,
    /// From the head of a request to sending its body without 100 Continue.
    #[serde(default = "one_second")]
    pub continue_s: f64,
    /// From sending a request to the first byte of its answer.
    pub first_byte_s: f64,
    /// From sending a request to the end of its answer.
    pub request_s: f64,
    /// From the end of the requests, or the last answer that came since, to discarding answers that are still missing; ten
    /// times as long at most. For transfers, from their end.
    pub drain_s: f64,
}

/// The same as curl (`EXPECT_100_TIMEOUT`).
const fn one_second() -> f64 {
    1.0
}

/// One worker and the sources leased to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The bucket that all of its connections land on, if so planned.
    pub bucket: Option<u16>,
    /// Whether it has its own descriptor table, because one table cannot hold all connections.
    pub own_descriptors: bool,
    /// Its part of each pool, in the order of the pools.
    pub shares: Vec<Share>,
}

/// One worker's part of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Its sources.
    pub leases: Vec<Lease>,
}

impl Share {
    /// Connections of this part.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.leases.iter().map(|lease| lease.connections).sum()
    }
}

impl PlannedWorker {
    /// Connections of this worker.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shares.iter().map(Share::connections).sum()
    }
}

/// The smallest read of a slow reader: one page.
const SMALLEST_PIECE: usize = 4_096;

impl<P> PlannedPool<P> {
    /// A closed loop over this many connections, without TLS or think time.
    #[must_use]
    pub fn new(target: Remote, protocol: P, connections: usize) -> Self {
        Self {
            name: "main".to_owned(),
            target,
            tls: None,
            model: Model::Closed { think_s: 0.0 },
            connections,
            requests_a_connection: None,
            behaviour: Behaviour::default(),
            protocol,
        }
    }

    /// A pool for each of these addresses, with the connections that the workers have to it.
    pub fn of_targets(
        targets: impl IntoIterator<Item = Remote>,
        workers: &[sources::PlannedWorker],
        pool: impl Fn(Remote, usize) -> Self,
    ) -> Vec<Self> {
        let connections = |place| {
            let leases = workers.iter().filter_map(|worker| worker.by_target().nth(place));
            leases.flatten().map(|lease| lease.connections).sum()
        };
        let targets = targets.into_iter().enumerate();
        targets
            .map(|(place, target)| pool(target, connections(place)))
            .collect()
    }
}

impl<P> StreamPlan<P> {
    /// These pools, one for each address that the workers connect to, for this many seconds, with default settings and no
    /// timeouts.
    #[must_use]
    pub fn new(pools: Vec<PlannedPool<P>>, duration_s: f64, workers: &[sources::PlannedWorker]) -> Self {
        let workers = workers.iter().map(|worker| PlannedWorker {
            cpu: worker.cpu,
            bucket: worker.bucket,
            own_descriptors: worker.own_descriptors,
            shares: (worker.by_target())
                .map(|leases| Share {
                    leases: leases.clone(),
                })
                .collect(),
        });
        Self {
            pools,
            phases: vec![PlannedPhase::hold(Until {
                duration_s: Some(duration_s),
                ..Until::default()
            })],
            requests: None,
            timeouts: Timeouts::default(),
            engine: None,
            memory: MemoryPolicy::default(),
            buffer_memory: None,
            gather_us: 0,
            steering: Steerings::default(),
            workers: workers.collect(),
        }
    }

    /// The same plan, with answers of a closed loop batched for this time at the longest; see [`GATHER`].
    #[must_use]
    pub fn gathering(self, most: Duration) -> Self {
        Self {
            gather_us: u32::try_from(most.as_micros()).unwrap_or(u32::MAX),
            ..self
        }
    }

    /// The engine settings of every worker. Slow readers receive small pieces, 1/50 s at a time, because received data
    /// is consumed and cannot be left in the kernel to fill the window. A connection queues `queued_bytes`, or what is usual.
    pub(super) fn engine_settings(&self, queued_bytes: usize) -> EngineSettings {
        let usual = EngineSettings::default();
        let rates = self.pools.iter();
        let rates = rates.filter_map(|pool| pool.behaviour.read_bytes_per_second);
        let piece = rates.min().and_then(|rate| usize::try_from(rate / 50).ok());
        let most = usual.stream_buffer_bytes;
        let sockets = self.workers.iter().map(PlannedWorker::connections);
        EngineSettings {
            stream_buffer_bytes: piece.map_or(most, |piece| piece.clamp(SMALLEST_PIECE, most)),
            sockets: sockets.max().unwrap_or(0),
            memory: self.buffer_memory,
            stream_queue_bytes: usual.stream_queue_bytes.max(queued_bytes),
            ..usual
        }
    }

    /// The engine: the requested one; else io_uring if answers are batched and the kernel supports it, otherwise epoll.
    /// An open loop has less lag on epoll (journal, 2026-11-22-http-speed).
    ///
    /// # Errors
    /// If the requested engine cannot be used.
    pub(super) fn choose_engine(&self, settings: &EngineSettings) -> Result<Chosen, NoEngine> {
        let slow = |pool: &PlannedPool<P>| pool.behaviour.read_bytes_per_second.is_some();
        let few = self.connections() <= MOST_ON_THE_RING * self.workers.len();
        let chosen = if self.gathers() && few && !self.pools.iter().any(slow) {
            choose_batching(self.engine)
        } else {
            choose(self.engine)
        };
        chosen.for_workers(self.engine, self.workers.len(), settings)
    }

    /// Whether answers may be batched.
    pub(super) fn gathers(&self) -> bool {
        let closed = |pool: &PlannedPool<P>| matches!(pool.model, Model::Closed { .. });
        self.gather_us > 0 && self.pools.iter().all(closed)
    }

    /// Connections over all workers and pools.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(PlannedWorker::connections).sum()
    }
}

/// The workers of a plan, each with its part of each pool, connected from the pool's addresses as aligned; workers
/// without connections are omitted.
pub(crate) fn lease<P, E>(
    pools: &[PlannedPool<P>],
    sources: &[(&Option<Pool>, Align, AlignBy)],
    workers: &WorkerRequest,
) -> Result<Vec<PlannedWorker>, StreamLoadError<E>> {
    let connections: usize = pools.iter().map(|pool| pool.connections).sum();
    if connections == 0 {
        return Err(StreamLoadError::NoConnections);
    }
    let [(_, first_align, first_by), ..] = sources else {
        return Err(StreamLoadError::NoConnections);
    };
    let places = workers.place(connections, false, *first_by)?;
    let alike = |(_, align, by): &(_, Align, AlignBy)| (align, by) == (first_align, first_by);
    let align = if sources.iter().all(alike) {
        *first_align
    } else {
        Align::Kernel
    };
    let planned = places.planned(align, *first_by)?;
    let unleased = planned.iter().map(|worker| PlannedWorker {
        cpu: worker.cpu,
        bucket: worker.bucket,
        own_descriptors: worker.own_descriptors,
        shares: Vec::new(),
    });
    let mut workers: Vec<PlannedWorker> = unleased.collect();
    for (pool, (addresses, align, by)) in pools.iter().zip(sources) {
        let sources = SourceRequest {
            target: pool.target.clone(),
            pool: (*addresses).clone(),
            align: *align,
            by: *by,
            sockets: pool.connections,
        };
        let leases = sources.leases(&places, Transport::Tcp)?;
        for (worker, leases) in workers.iter_mut().zip(leases) {
            worker.shares.push(Share { leases });
        }
    }
    workers.retain(|worker| worker.connections() > 0);
    Ok(workers)
}
