//! What a TCP generator is to do, and how that is made from what a user asked for.

use crate::needs::Needs;
use crate::sources::PlannedWorker;
use crate::streams::StreamLoadError;
use corelane_host::memory::MemoryPolicy;
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
    /// Bytes of each write, at most [`WRITE_BYTES`]; the next one follows when the kernel took them all.
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
    pub workers: Vec<PlannedWorker>,
}

impl TcpPlan {
    /// What the run needs of this machine, as it is now.
    #[must_use]
    pub fn needs(&self) -> Needs {
        Needs::of_workers(&self.workers, self.target)
    }

    /// Connections over all workers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(PlannedWorker::sockets).sum()
    }
}

/// Why a generator could not be planned, started or finished.
pub type TcpLoadError = StreamLoadError;
