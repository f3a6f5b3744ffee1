//! What a TCP server is to do: serialisable, so that it can be printed, handed to a child process and put in a report.

use crate::streams::Listening;
use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

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

/// What a source hands the kernel at once, unless asked otherwise: enough that the size costs nothing.
pub const SOURCE_WRITE_BYTES: u32 = 1 << 20;

const fn source_write_bytes() -> u32 {
    SOURCE_WRITE_BYTES
}

/// A TCP server, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpPlan {
    /// Where and how it listens.
    #[serde(flatten)]
    pub listening: Listening,
    /// What is done with each connection.
    pub mode: TcpMode,
    /// Bytes of each write of a source; the next one follows when the kernel took them all.
    #[serde(default = "source_write_bytes")]
    pub write_bytes: u32,
    /// After how long without progress a connection stands still, in milliseconds.
    pub stall_ms: u64,
}

impl TcpPlan {
    /// A server on `address`, steered by `steering`, with everything else at its default.
    #[must_use]
    pub fn new(address: SocketAddr, mode: TcpMode, steering: Steering) -> Self {
        Self {
            listening: Listening::new(address, steering),
            mode,
            write_bytes: SOURCE_WRITE_BYTES,
            stall_ms: 1_000,
        }
    }
}
