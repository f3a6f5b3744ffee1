//! The plan of a UDP generator: serialisable, with every source leased to one worker, so that workers need no
//! coordination.

use crate::pace::Pace;
use crate::sources::{PlannedWorker, SourceError, Steerings};
use crate::udp::{Probes, Skew, weights};
use corelane_host::memory::MemoryPolicy;
use corelane_proto::probe::SizeError;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::{EngineKind, EngineSettings, NoEngine};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// A fully resolved run of a UDP generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpPlan<P = Probes> {
    /// The target address.
    pub target: SocketAddr,
    /// The protocol of its datagrams.
    #[serde(flatten)]
    pub protocol: P,
    /// When to send.
    pub pace: Pace,
    /// When to stop.
    pub until: Until,
    /// Whether the target answers. If not, nothing is awaited, and nothing counts as lost.
    pub answers: bool,
    /// Seconds without any answer after which outstanding datagrams count as lost.
    pub loss_timeout_s: f64,
    /// The same once all is sent; `None`: `loss_timeout_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// How the engine moves datagrams.
    #[serde(flatten)]
    pub settings: EngineSettings,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// How traffic is shared among flows; the workers' weights give the share of each socket.
    #[serde(default)]
    pub skew: Skew,
    /// Notes on the plan, for the report.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The steerings by which sources were aligned, to compare where flows land; empty for no comparison.
    #[serde(default, skip_serializing_if = "Steerings::is_empty")]
    pub steering: Steerings,
    /// Workers and their sources.
    pub workers: Vec<PlannedWorker>,
}

/// When a run ends: at the first limit reached, and on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// After this many seconds.
    pub duration_s: Option<f64>,
    /// After this many datagrams over all workers.
    pub datagrams: Option<u64>,
}

/// Default seconds without an answer after which outstanding datagrams count as lost: far above any round trip inside a
/// machine or a building.
const LOSS_TIMEOUT_S: f64 = 0.2;

impl<P> UdpPlan<P> {
    /// A flood of answered requests until stopped, with default engine settings.
    #[must_use]
    pub fn new(target: SocketAddr, protocol: P, workers: Vec<PlannedWorker>) -> Self {
        Self {
            target,
            protocol,
            pace: Pace::Flood,
            until: Until::default(),
            answers: true,
            loss_timeout_s: LOSS_TIMEOUT_S,
            drain_s: None,
            engine: None,
            settings: EngineSettings::default(),
            memory: MemoryPolicy::default(),
            skew: Skew::None,
            notes: Vec::new(),
            steering: Steerings::default(),
            workers,
        }
    }

    /// The same plan, with a share of the traffic for each socket.
    #[must_use]
    pub fn skewed(mut self, skew: Skew) -> Self {
        self.skew = skew;
        weights::deal(skew, &mut self.workers);
        self
    }

    /// Whether some sockets send more than others.
    pub(super) fn is_skewed(&self) -> bool {
        self.skew != Skew::None
    }

    pub(super) fn loss_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.loss_timeout_s)
    }

    /// The loss timeout once all is sent.
    pub(super) fn drain_timeout(&self) -> Duration {
        self.drain_s.map_or(self.loss_timeout(), Duration::from_secs_f64)
    }

    /// A worker's share of a limited number of datagrams.
    pub(super) fn budget(&self, place: usize) -> u64 {
        let Some(all) = self.until.datagrams else {
            return u64::MAX;
        };
        let share = |worker: &PlannedWorker| match worker.weights.iter().sum::<f64>() {
            0.0 => 1.0 / self.workers.len() as f64,
            share => share,
        };
        // Rounded so that the shares of all workers sum to the total.
        let until = |workers: usize| match workers {
            last if last == self.workers.len() => all,
            workers => (all as f64 * self.workers[..workers].iter().map(share).sum::<f64>()).round() as u64,
        };
        until(place + 1) - until(place)
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
    /// Invalid payload size.
    #[error(transparent)]
    Payload(#[from] SizeError),
    /// The sources do not suffice.
    #[error(transparent)]
    Sources(#[from] SourceError),
    /// A source that cannot be bound.
    #[error("source {from}: {error}{}", hint(.error))]
    Source {
        /// The address and port.
        from: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The requested engine cannot be used.
    #[error(transparent)]
    Engine(#[from] NoEngine),
    /// A worker could not start or continue.
    #[error(transparent)]
    Crew(CrewError),
}

impl From<CrewError> for UdpLoadError {
    /// Source errors detected by a worker are errors of the plan.
    fn from(error: CrewError) -> Self {
        error.downcast().unwrap_or_else(Self::Crew)
    }
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
