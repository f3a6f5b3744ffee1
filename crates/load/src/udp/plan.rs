//! What a UDP generator is to do: serialisable, with every source leased to one worker, so that workers never ask each
//! other.

use crate::needs::{Needs, Sockets};
use crate::pace::Pace;
use crate::udp::Skew;
use corelane_host::memory::MemoryPolicy;
use corelane_proto::probe::SizeError;
use corelane_rss::plan::PlanError;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// A UDP generator's run, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpPlan {
    /// Where to send.
    pub target: SocketAddr,
    /// Bytes of UDP payload, 16 to 65,507.
    pub payload_bytes: usize,
    /// When to send.
    pub pace: Pace,
    /// When to stop.
    pub until: Until,
    /// Whether the target answers. Without answers nothing is waited for, and nothing is called lost.
    pub answers: bool,
    /// How long without any answer before what is outstanding counts as lost, seconds.
    pub loss_timeout_s: f64,
    /// The engine asked for; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// Datagrams moved at once; 1 is one `sendto` and one `recvfrom` a datagram.
    pub batch: usize,
    /// Send runs of datagrams as one `UDP_SEGMENT` send.
    pub coalesce: bool,
    /// Receive `UDP_GRO` super-datagrams.
    pub gro: bool,
    /// From which node each worker's memory comes.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// From which node the buffers of datagrams come, where that is to differ.
    #[serde(default)]
    pub buffer_memory: Option<MemoryPolicy>,
    /// How the flows share the traffic; the workers' weights say it socket by socket.
    #[serde(default)]
    pub skew: Skew,
    /// Who sends from where.
    pub workers: Vec<PlannedWorker>,
}

/// When a run ends: at the first of these that is met, and on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// After so many seconds.
    pub duration_s: Option<f64>,
    /// After so many datagrams over all workers.
    pub datagrams: Option<u64>,
}

/// One worker and the sources leased to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The bucket that all of its sources land on at the target, when they were planned so.
    pub bucket: Option<u16>,
    /// Whether it takes a descriptor table of its own, because the process's would not hold all sockets.
    pub own_descriptors: bool,
    /// Its sources.
    pub leases: Vec<Lease>,
    /// Under skew, each socket's share of the traffic of all workers, in the order of the leases and their ports. Empty where
    /// all sockets are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
}

impl PlannedWorker {
    /// Sockets of this worker.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.leases.iter().map(|lease| lease.ports.count()).sum()
    }
}

/// One source address and ports of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The source address; unspecified leaves it to the routing table.
    pub address: IpAddr,
    /// One socket a port.
    pub ports: Ports,
}

/// The source ports of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// So many, chosen by the kernel.
    Any(usize),
    /// Exactly these.
    Listed(Vec<u16>),
    /// So many from 1,024 up to 65,534, leaving out those in use: more than the kernel's own range would give.
    Wide(usize),
}

/// The first port of [`Ports::Wide`]: those below are for privileged servers.
pub(super) const FIRST_WIDE_PORT: u16 = 1024;

/// The last port of [`Ports::Wide`].
pub(super) const LAST_WIDE_PORT: u16 = 65_534;

impl Ports {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Any(count) | Self::Wide(count) => *count,
            Self::Listed(ports) => ports.len(),
        }
    }
}

impl UdpPlan {
    /// The engine settings that this plan asks for.
    #[must_use]
    pub fn engine_settings(&self) -> EngineSettings {
        EngineSettings {
            datagram_batch: self.batch,
            coalesce: self.coalesce,
            gro: self.gro,
            memory: self.buffer_memory,
            ..EngineSettings::default()
        }
    }

    /// What the run needs of this machine, as it is now.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let leases = self.workers.iter().flat_map(|worker| &worker.leases);
        let kernel_ports = |lease: &Lease| match lease.ports {
            Ports::Any(count) => (lease.address, count),
            Ports::Listed(_) | Ports::Wide(_) => (lease.address, 0),
        };
        Needs::of(&Sockets {
            by_worker: self.workers.iter().map(PlannedWorker::sockets).collect(),
            own_descriptors: self.workers.iter().any(|worker| worker.own_descriptors),
            sources: leases.map(kernel_ports).collect(),
            targets: vec![self.target.ip()],
            ..Sockets::default()
        })
    }

    /// Whether some sockets send more than others.
    pub(super) fn is_skewed(&self) -> bool {
        self.skew != Skew::None
    }

    pub(super) fn loss_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.loss_timeout_s)
    }

    /// Sockets over all workers.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.workers.iter().map(PlannedWorker::sockets).sum()
    }
}

/// Why a generator could not be planned, started or finished.
#[derive(Debug, Error)]
pub enum UdpLoadError {
    /// A payload that no probe fits.
    #[error(transparent)]
    Payload(#[from] SizeError),
    /// The sources cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A source pool without addresses of the target's family.
    #[error("the source pool {pool} has no address of {target}'s family other than {target} itself")]
    EmptyPool {
        /// The pool as written.
        pool: String,
        /// The target.
        target: IpAddr,
    },
    /// Buckets that no source reaches.
    #[error(
        "no address of {pool} lands on bucket {} with this steering document: widen --sources, or let ports vary with --hash 4tuple",
        list(.buckets)
    )]
    Unreached {
        /// The pool as written.
        pool: String,
        /// Buckets without a source.
        buckets: Vec<u16>,
    },
    /// More sockets than the sources have ports.
    #[error(
        "{sockets} sockets need {needed} source addresses, and the pool has {addresses}: widen --sources"
    )]
    Ports {
        /// Sockets asked for.
        sockets: usize,
        /// Addresses they need at 64,511 ports (1,024 to 65,534) each.
        needed: usize,
        /// Addresses there are.
        addresses: usize,
    },
    /// Spreading over buckets without knowing them.
    #[error("--spread buckets needs the server's steering document: give its file with --steering")]
    NoSteering,
    /// Spreading over buckets without knowing where from.
    #[error("--spread buckets chooses sources by their addresses: give those of this machine with --sources")]
    NoSources,
    /// A source that could not be had.
    #[error("source {from}: {error}{}", hint(.error))]
    Source {
        /// The address and port.
        from: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A worker could not start or go on.
    #[error(transparent)]
    Crew(CrewError),
}

impl From<CrewError> for UdpLoadError {
    /// What a worker found out about its sources is an error of the plan.
    fn from(error: CrewError) -> Self {
        error.downcast().unwrap_or_else(Self::Crew)
    }
}

fn list(buckets: &[u16]) -> String {
    buckets.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": another socket holds that port; leave ports to the kernel or choose others"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": the address is not on this machine; add it, or route its prefix with `ip route add local PREFIX dev lo`"
        }
        _ => "",
    }
}
