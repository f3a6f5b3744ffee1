//! What a TCP server is to do: serialisable, so that it can be printed, handed to a child process and put in a report.

use crate::listeners::ListenError;
use corelane_rss::Steering;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::EngineKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use thiserror::Error;

/// What is done with each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpMode {
    /// Takes bytes and sends none.
    Sink,
    /// Sends bytes as fast as they are taken.
    Source,
    /// Sends back what it gets.
    Echo,
}

impl fmt::Display for TcpMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sink => "sink",
            Self::Source => "source",
            Self::Echo => "echo",
        })
    }
}

/// A word that is no mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no mode {0:?}: give sink, source or echo")]
pub struct UnknownTcpMode(String);

impl FromStr for TcpMode {
    type Err = UnknownTcpMode;

    fn from_str(text: &str) -> Result<Self, UnknownTcpMode> {
        match text {
            "sink" => Ok(Self::Sink),
            "source" => Ok(Self::Source),
            "echo" => Ok(Self::Echo),
            other => Err(UnknownTcpMode(other.to_owned())),
        }
    }
}

/// What a source hands the kernel at once, unless told otherwise: enough that the size costs nothing.
pub const SOURCE_WRITE_BYTES: u32 = 1 << 20;

const fn source_write_bytes() -> u32 {
    SOURCE_WRITE_BYTES
}

/// A TCP server, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpPlan {
    /// Where to listen; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Listens on an address that no device has, such as one of a prefix routed to this machine.
    #[serde(default)]
    pub free_bind: bool,
    /// What is done with each connection.
    pub mode: TcpMode,
    /// Bytes of each write of a source; the next one follows when the kernel took them all.
    #[serde(default = "source_write_bytes")]
    pub write_bytes: u32,
    /// Key, table and CPUs: one worker for each of its buckets.
    pub steering: Steering,
    /// Leaves the choice among the listeners to the kernel's own hash: what exact steering is measured against.
    #[serde(default)]
    pub kernel_hash: bool,
    /// The engine asked for; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// Connections that may wait at each listener.
    pub backlog: u16,
    /// Gives each worker a descriptor table of its own, so that the limit of open files holds for each alone.
    pub own_descriptors: bool,
    /// After how long without progress a connection stands still, in milliseconds.
    pub stall_ms: u64,
}

impl TcpPlan {
    /// A server on `address`, steered by `steering`, with everything else at its default.
    #[must_use]
    pub fn new(address: SocketAddr, mode: TcpMode, steering: Steering) -> Self {
        Self {
            address,
            free_bind: false,
            mode,
            write_bytes: SOURCE_WRITE_BYTES,
            steering,
            kernel_hash: false,
            engine: None,
            backlog: 4_096,
            own_descriptors: true,
            stall_ms: 1_000,
        }
    }
}

/// Why a TCP server could not start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TcpServeError {
    /// There are no listeners.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The threads could not start or go on.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
