//! What a UDP generator is to do: serialisable, with every source leased to one worker, so that workers never ask each
//! other.

use crate::needs::Needs;
use crate::pace::Pace;
use crate::sources::{PlannedWorker, SourceError};
use crate::udp::{Probes, Skew, weights};
use corelane_host::memory::MemoryPolicy;
use corelane_proto::probe::SizeError;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// A UDP generator's run, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpPlan<P = Probes> {
    /// Where to send.
    pub target: SocketAddr,
    /// What is sent.
    #[serde(flatten)]
    pub protocol: P,
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

/// Seconds without an answer after which what is outstanding counts as lost, unless asked otherwise: far above any round trip
/// inside a machine or a building.
const LOSS_TIMEOUT_S: f64 = 0.2;

impl<P> UdpPlan<P> {
    /// A flood of requests that are answered, until it is stopped, sent as engines do by default.
    #[must_use]
    pub fn new(target: SocketAddr, protocol: P, workers: Vec<PlannedWorker>) -> Self {
        let usual = EngineSettings::default();
        Self {
            target,
            protocol,
            pace: Pace::Flood,
            until: Until::default(),
            answers: true,
            loss_timeout_s: LOSS_TIMEOUT_S,
            engine: None,
            batch: usual.datagram_batch,
            coalesce: usual.coalesce,
            gro: usual.gro,
            memory: MemoryPolicy::default(),
            buffer_memory: usual.memory,
            skew: Skew::None,
            workers,
        }
    }

    /// The same, each socket with its share of the traffic.
    #[must_use]
    pub fn skewed(mut self, skew: Skew) -> Self {
        self.skew = skew;
        weights::deal(skew, &mut self.workers);
        self
    }

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
        Needs::of_workers(&self.workers, self.target)
    }

    /// Whether some sockets send more than others.
    pub(super) fn is_skewed(&self) -> bool {
        self.skew != Skew::None
    }

    pub(super) fn loss_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.loss_timeout_s)
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
        // Rounded so that the shares of all workers are all there is.
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
    /// A payload size that no probe can have.
    #[error(transparent)]
    Payload(#[from] SizeError),
    /// The sources do not suffice.
    #[error(transparent)]
    Sources(#[from] SourceError),
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
