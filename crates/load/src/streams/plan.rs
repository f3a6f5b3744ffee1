//! What a generator over streams is to do: serialisable, with every source leased to one worker, so that workers never ask
//! each other.

use super::error::StreamLoadError;
use super::tls::PlannedTls;
use crate::needs::{Needs, Sockets};
use crate::pool::Pool;
use crate::sources::{Align, Lease, SourceRequest, Transport, WorkerRequest};
use corelane_host::memory::MemoryPolicy;
use corelane_worker::engine::{
    Chosen, EngineKind, EngineSettings, MOST_ON_THE_RING, choose, choose_batching,
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// A run over streams, fully decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamPlan<P> {
    /// Who asks for what; each counts for itself.
    pub pools: Vec<PlannedPool<P>>,
    /// What the pools do when, one phase after the other.
    pub phases: Vec<PlannedPhase>,
    /// Requests over all phases, pools and workers; `None` for as many as there is time for.
    pub requests: Option<u64>,
    /// How long anything may take.
    pub timeouts: Timeouts,
    /// The engine asked for; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// From which node each worker's memory comes.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// The longest that answers of a closed loop may gather before they are taken, in microseconds; 0 to take each as it
    /// comes. See [`GATHER`].
    #[serde(default)]
    pub gather_us: u32,
    /// Who connects from where.
    pub workers: Vec<PlannedWorker>,
}

/// The longest that answers of a closed loop gather by default. They gather for an eighth of the mean latency, which a
/// queue of connections makes long, and no longer than this: so one sleep serves several answers, and not every answer
/// wakes the generator. An answer is told up to that much late. Open loops never gather.
pub const GATHER: Duration = Duration::from_micros(50);

/// Clients that behave alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPool<P> {
    /// Its name in reports.
    pub name: String,
    /// Where its connections go.
    pub target: SocketAddr,
    /// How its connections are encrypted; `None` for plain ones.
    #[serde(default)]
    pub tls: Option<PlannedTls>,
    /// When its requests are made.
    pub model: Model,
    /// Its connections, over all workers.
    pub connections: usize,
    /// Requests a connection serves before it is closed; `None` for as many as the server likes.
    pub requests_a_connection: Option<u32>,
    /// How its clients differ from the quickest there are.
    pub behaviour: Behaviour,
    /// What is said on its connections.
    #[serde(flatten)]
    pub protocol: P,
}

/// How clients differ from the quickest and most patient there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Bytes a second that a connection takes of an answer.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes a second that a connection gives of a request.
    pub write_bytes_per_second: Option<u64>,
    /// The share of requests that are given up as soon as their answer begins.
    pub abort_share: f64,
    /// Seconds before the first request of a connection.
    pub first_pause_s: f64,
}

/// A part of a run: how much of each pool is at work, and what ends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPhase {
    /// Its name in reports.
    pub name: String,
    /// The share of connections (closed loop) or of the rate (open loop) at its beginning.
    pub from: f64,
    /// The same at the end of its duration.
    pub to: f64,
    /// What ends it.
    pub until: Until,
}

/// When requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Closed loop: each connection asks, waits for the answer, thinks, and asks again. A slow server is asked less.
    Closed {
        /// Seconds from an answer to the next request.
        think_s: f64,
    },
    /// Open loop: so many requests a second over all workers, at times fixed in advance.
    Open {
        /// Requests a second.
        per_second: f64,
    },
}

impl Model {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
        }
    }
}

/// When a phase ends: at the first of these that is met, and on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// After so many seconds.
    pub duration_s: Option<f64>,
    /// After about so many successful requests in it, over all workers: they are counted every few milliseconds.
    pub requests: Option<u64>,
    /// After about so many failed ones.
    pub failures: Option<u64>,
}

/// How long anything may take, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timeouts {
    /// From the first attempt to open a connection to its being open, its TLS handshake included.
    pub connect_s: f64,
    /// From the head of a request to sending its body though the server has not asked for it.
    #[serde(default = "one_second")]
    pub continue_s: f64,
    /// From sending a request to the first byte of its answer.
    pub first_byte_s: f64,
    /// From sending a request to the end of its answer.
    pub request_s: f64,
    /// From the end of the requests to giving up on answers that are still missing.
    pub drain_s: f64,
}

/// What curl waits as well (`EXPECT_100_TIMEOUT`).
const fn one_second() -> f64 {
    1.0
}

/// One worker and the sources leased to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The bucket that all of its connections land on at the target, when they were planned so.
    pub bucket: Option<u16>,
    /// Whether it takes a descriptor table of its own, because one table would not hold all connections.
    pub own_descriptors: bool,
    /// Its part of each pool, in the order of the pools.
    pub shares: Vec<Share>,
}

/// One worker's part of one pool.
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

/// The smallest piece that a slow reader takes: a page.
const SMALLEST_PIECE: usize = 4_096;

impl<P> StreamPlan<P> {
    /// The settings of every worker's engine. Slow readers take small pieces, a fiftieth of a second's at a time: what was
    /// received is taken, and could not be left in the kernel to fill the window.
    #[must_use]
    pub fn engine_settings(&self) -> EngineSettings {
        let usual = EngineSettings::default();
        let rates = self
            .pools
            .iter()
            .filter_map(|pool| pool.behaviour.read_bytes_per_second);
        let piece = rates.min().and_then(|rate| usize::try_from(rate / 50).ok());
        let most = usual.stream_buffer_bytes;
        EngineSettings {
            stream_buffer_bytes: piece.map_or(most, |piece| piece.clamp(SMALLEST_PIECE, most)),
            ..usual
        }
    }

    /// The engine: the one asked for; else io_uring where answers gather and the kernel can do that, epoll everywhere else.
    /// An open loop is less late on epoll (journal, 2026-11-22-http-speed).
    #[must_use]
    pub fn choose_engine(&self) -> Chosen {
        let slow = |pool: &PlannedPool<P>| pool.behaviour.read_bytes_per_second.is_some();
        let few = self.connections() <= MOST_ON_THE_RING * self.workers.len();
        if self.gathers() && few && !self.pools.iter().any(slow) {
            choose_batching(self.engine)
        } else {
            choose(self.engine)
        }
    }

    /// Whether answers may gather.
    #[must_use]
    pub fn gathers(&self) -> bool {
        let closed = |pool: &PlannedPool<P>| matches!(pool.model, Model::Closed { .. });
        self.gather_us > 0 && self.pools.iter().all(closed)
    }

    /// What the run needs of this machine, as it is now.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let encrypted = self.pools.iter().filter(|pool| pool.tls.is_some());
        Needs::of(&Sockets {
            leases: (self.workers.iter())
                .map(|worker| worker.shares.iter().flat_map(|share| &share.leases).collect())
                .collect(),
            own_descriptors: self.workers.iter().any(|worker| worker.own_descriptors),
            encrypted: encrypted.map(|pool| pool.connections).sum(),
            targets: self.pools.iter().map(|pool| pool.target.ip()).collect(),
            closes: self.pools.iter().any(|pool| pool.requests_a_connection.is_some()),
        })
    }

    /// Connections over all workers and pools.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(PlannedWorker::connections).sum()
    }
}

/// The workers of a plan with these pools, each with its part of each pool, connected from the pool's addresses as aligned;
/// those that got none are left out.
pub(crate) fn lease<P>(
    pools: &[PlannedPool<P>],
    sources: &[(&Option<Pool>, Align)],
    workers: &WorkerRequest,
) -> Result<Vec<PlannedWorker>, StreamLoadError> {
    let connections: usize = pools.iter().map(|pool| pool.connections).sum();
    if connections == 0 {
        return Err(StreamLoadError::NoConnections);
    }
    let places = workers.place(connections, false)?;
    let all_aligned = sources.iter().all(|(_, align)| *align == Align::Bucket);
    let planned = places.planned(if all_aligned { Align::Bucket } else { Align::Kernel })?;
    let unleased = planned.iter().map(|worker| PlannedWorker {
        cpu: worker.cpu,
        bucket: worker.bucket,
        own_descriptors: worker.own_descriptors,
        shares: Vec::new(),
    });
    let mut workers: Vec<PlannedWorker> = unleased.collect();
    for (pool, (addresses, align)) in pools.iter().zip(sources) {
        let sources = SourceRequest {
            target: pool.target,
            pool: (*addresses).clone(),
            align: *align,
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
