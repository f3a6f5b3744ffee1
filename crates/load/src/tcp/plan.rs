//! The plan of a TCP generator.

use super::transfer::Bytes;
use crate::sources::{PlannedWorker, Steerings};
use corelane_host::memory::MemoryPolicy;
use corelane_worker::engine::{EngineKind, Remote};
use corelane_worker::tls::Trust;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A fully resolved run of a TCP generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpPlan {
    /// The server address.
    pub target: Remote,
    /// Its further addresses; each has an equal share of the connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<SocketAddr>,
    /// TLS settings; `None` for plaintext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Trust>,
    /// What each connection transfers.
    #[serde(flatten)]
    pub transfer: Bytes,
    /// Duration of the transfers in seconds.
    pub duration_s: f64,
    /// Timeout for opening a connection, in seconds.
    pub connect_timeout_s: f64,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// NUMA node of each worker's receive and send buffers; `None`: that of its other memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_memory: Option<MemoryPolicy>,
    /// The steerings by which sources were aligned, to compare where connections land; empty for no comparison.
    #[serde(default, skip_serializing_if = "Steerings::is_empty")]
    pub steering: Steerings,
    /// Workers and their sources.
    pub workers: Vec<PlannedWorker>,
}

impl TcpPlan {
    /// All addresses of the server.
    pub fn targets(&self) -> impl Iterator<Item = Remote> {
        std::iter::once(self.target.clone()).chain(self.others.iter().map(|other| (*other).into()))
    }

    /// The same in words.
    pub(super) fn server(&self) -> String {
        self.targets()
            .map(|target| target.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Connections over all workers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(PlannedWorker::sockets).sum()
    }
}
