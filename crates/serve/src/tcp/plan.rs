//! The plan of a TCP server: serialisable, so that it can be printed, passed to a child process and included in a
//! report.

use crate::streams::Listening;
use corelane_measure::words;
use corelane_rss::Steering;
use corelane_worker::tls::Certificate;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

words!(TcpMode);

/// Mode of a TCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpMode {
    /// Receives bytes and sends none.
    Sink,
    /// Sends bytes as fast as the client accepts them.
    Source,
    /// Sends received bytes back.
    Echo,
}

/// Default size of a source's write: large enough that the cost per call does not matter.
pub const SOURCE_WRITE_BYTES: u32 = 1 << 20;

const fn source_write_bytes() -> u32 {
    SOURCE_WRITE_BYTES
}

/// A fully resolved TCP server plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpPlan {
    /// Listener settings.
    #[serde(flatten)]
    pub listening: Listening,
    /// Mode.
    pub mode: TcpMode,
    /// Bytes per write of a source, with TLS at most 256 KiB; the next write follows once the kernel has accepted all of them.
    #[serde(default = "source_write_bytes")]
    pub write_bytes: u32,
    /// Milliseconds without progress after which a connection counts as stalled.
    pub stall_ms: u64,
    /// Milliseconds without progress after which a connection is closed, or reset if bytes for it are queued; it is looked at
    /// every `stall_ms`. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Certificate for TLS; `None` for plaintext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Certificate>,
    /// File to which the self-signed certificate is written, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_certificate: Option<PathBuf>,
}

impl TcpPlan {
    /// A server on `address`, steered by `steering`, with defaults otherwise.
    #[must_use]
    pub fn new(address: SocketAddr, mode: TcpMode, steering: Steering) -> Self {
        Self {
            listening: Listening::new(address, steering),
            mode,
            write_bytes: SOURCE_WRITE_BYTES,
            stall_ms: 1_000,
            idle_ms: None,
            tls: None,
            write_certificate: None,
        }
    }
}
