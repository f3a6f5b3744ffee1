//! What a TCP generator is to do, and how that is made from what a user asked for.

use crate::needs::{Needs, Sockets};
use crate::pool::Pool;
use crate::sources::{Align, Lease, SourceError, SourceRequest, fit_descriptors};
use corelane_host::memory::MemoryPolicy;
use corelane_rss::Steering;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::EngineKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use thiserror::Error;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the server.
    Write,
    /// From the server, which must send unasked.
    Read,
    /// Both at once: what is written, or as much, comes back.
    Both,
}

impl Direction {
    /// Whether this end writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

/// A word that names no direction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no direction: give write, read or both")]
pub struct UnknownDirection(String);

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, UnknownDirection> {
        match text {
            "write" => Ok(Self::Write),
            "read" => Ok(Self::Read),
            "both" => Ok(Self::Both),
            other => Err(UnknownDirection(other.to_owned())),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Both => "both",
        })
    }
}

/// What is handed to the kernel at once, unless told otherwise: enough that the size costs nothing. Also the most.
pub const WRITE_BYTES: u32 = 1 << 20;

const fn write_bytes() -> u32 {
    WRITE_BYTES
}

/// A TCP generator's run, fully decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpPlan {
    /// Where the connections go.
    pub target: SocketAddr,
    /// Which way bytes go.
    pub direction: Direction,
    /// Bytes of each write; the next one follows when the kernel took them all.
    #[serde(default = "write_bytes")]
    pub write_bytes: u32,
    /// Bytes a second that each connection writes; `None` for as many as it can.
    pub write_bytes_per_second: Option<u64>,
    /// How long connections are at work, seconds.
    pub duration_s: f64,
    /// Seconds that are waited at most, after that, until everything that either end sent has arrived and the server has
    /// ended each connection; `None` for not waiting.
    #[serde(default)]
    pub drain_s: Option<f64>,
    /// Without progress for so long a connection stands still, seconds.
    pub stall_s: f64,
    /// For opening a connection, seconds.
    pub connect_timeout_s: f64,
    /// The engine asked for; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// From which node each worker's memory comes.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// Who connects from where.
    pub workers: Vec<TcpPlannedWorker>,
}

/// One worker and the sources leased to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpPlannedWorker {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The bucket that all of its connections land on at the target, when they were planned so.
    pub bucket: Option<u16>,
    /// Whether it takes a descriptor table of its own.
    pub own_descriptors: bool,
    /// Its sources.
    pub leases: Vec<Lease>,
}

impl TcpPlannedWorker {
    /// Connections of this worker.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.leases.iter().map(|lease| lease.connections).sum()
    }
}

impl TcpPlan {
    /// What the run needs of this machine, as it is now.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let leases = self.workers.iter().flat_map(|worker| &worker.leases);
        Needs::of(&Sockets {
            by_worker: self.workers.iter().map(TcpPlannedWorker::connections).collect(),
            own_descriptors: self.workers.iter().any(|worker| worker.own_descriptors),
            sources: leases.map(Lease::kernel_ports).collect(),
            targets: vec![self.target.ip()],
            ..Sockets::default()
        })
    }

    /// Connections over all workers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(TcpPlannedWorker::connections).sum()
    }
}

/// What a user asks of the TCP generator.
#[derive(Debug, Clone)]
pub struct TcpRequest {
    /// Where the connections go.
    pub target: SocketAddr,
    /// Which way bytes go.
    pub direction: Direction,
    /// Connections in all.
    pub connections: usize,
    /// Bytes of each write, at most [`WRITE_BYTES`].
    pub write_bytes: u32,
    /// Bytes a second that each connection writes.
    pub write_bytes_per_second: Option<u64>,
    /// How long connections are at work, seconds.
    pub duration_s: f64,
    /// Seconds to wait for what was sent to arrive; `None` for not waiting.
    pub drain_s: Option<f64>,
    /// Without progress for so long a connection stands still, seconds.
    pub stall_s: f64,
    /// For opening a connection, seconds.
    pub connect_timeout_s: f64,
    /// Source addresses; `None` leaves the choice to the routing table.
    pub sources: Option<Pool>,
    /// How sources are chosen.
    pub align: Align,
    /// The target's steering document.
    pub steering: Option<Steering>,
    /// The buckets to land on; `None` for all. Only sources that are aligned can choose.
    pub buckets: Option<Vec<u16>>,
    /// One worker a CPU of this list; more workers share them when descriptors demand it.
    pub cpus: Vec<u32>,
    /// The engine asked for.
    pub engine: Option<EngineKind>,
    /// From which node each worker's memory comes.
    pub memory: MemoryPolicy,
    /// Descriptors that one table may hold.
    pub descriptor_limit: usize,
}

impl TcpRequest {
    /// Decides everything.
    ///
    /// # Errors
    /// When the sources do not suffice.
    pub fn resolve(&self) -> Result<TcpPlan, TcpLoadError> {
        let (cpus, own_descriptors) = fit_descriptors(&self.cpus, self.connections, self.descriptor_limit);
        let sources = SourceRequest {
            target: self.target,
            pool: self.sources.as_ref(),
            connections: self.connections,
            cpus: &cpus,
            align: self.align,
            steering: self.steering.as_ref(),
            buckets: self.buckets.as_deref(),
        };
        let workers = sources.plan()?.into_iter().map(|sources| TcpPlannedWorker {
            cpu: sources.cpu,
            bucket: sources.bucket,
            own_descriptors,
            leases: sources.leases,
        });
        Ok(TcpPlan {
            target: self.target,
            direction: self.direction,
            write_bytes: self.write_bytes.clamp(1, WRITE_BYTES),
            write_bytes_per_second: self.write_bytes_per_second,
            duration_s: self.duration_s,
            drain_s: self.drain_s,
            stall_s: self.stall_s,
            connect_timeout_s: self.connect_timeout_s,
            engine: self.engine,
            memory: self.memory,
            workers: workers.filter(|worker| worker.connections() > 0).collect(),
        })
    }
}

/// Why a generator could not be planned, started or finished.
#[derive(Debug, Error)]
pub enum TcpLoadError {
    /// The sources do not suffice.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A worker could not be started, or ended early.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
