//! The plan of a TCP generator, and how it is made from the user's settings.

use crate::sources::PlannedWorker;
use crate::streams::StreamLoadError;
use corelane_host::memory::MemoryPolicy;
use corelane_worker::engine::EngineKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use thiserror::Error;

/// Direction of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the server.
    Write,
    /// From the server, which must send unsolicited.
    Read,
    /// Both at the same time: the server echoes, or sends as much.
    Both,
}

impl Direction {
    /// Whether this end writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

/// Invalid direction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a direction: use write, read or both")]
pub struct UnknownDirection(String);

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, UnknownDirection> {
        let all = [Self::Write, Self::Read, Self::Both];
        let found = all.into_iter().find(|direction| direction.to_string() == text);
        found.ok_or_else(|| UnknownDirection(text.to_owned()))
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

/// Default and maximum size of a write: large enough that the cost per call does not matter.
pub const WRITE_BYTES: u32 = 1 << 20;

const fn write_bytes() -> u32 {
    WRITE_BYTES
}

/// A fully resolved run of a TCP generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpPlan {
    /// The server address.
    pub target: SocketAddr,
    /// Direction of transfer.
    pub direction: Direction,
    /// Bytes per write, at most [`WRITE_BYTES`]; the next write follows once the kernel has accepted all of them.
    #[serde(default = "write_bytes")]
    pub write_bytes: u32,
    /// Bytes per second that each connection writes; `None` for no limit.
    pub write_bytes_per_second: Option<u64>,
    /// Duration of the transfers in seconds.
    pub duration_s: f64,
    /// Maximum drain time in seconds: waits until everything that either end sent has arrived and the server has closed
    /// each connection; `None` for no draining.
    #[serde(default)]
    pub drain_s: Option<f64>,
    /// Seconds without progress after which a connection counts as stalled.
    pub stall_s: f64,
    /// Timeout for opening a connection, in seconds.
    pub connect_timeout_s: f64,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// Workers and their sources.
    pub workers: Vec<PlannedWorker>,
}

impl TcpPlan {
    /// Connections over all workers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(PlannedWorker::sockets).sum()
    }
}

/// Why a generator could not be planned, started or finished.
pub type TcpLoadError = StreamLoadError;
