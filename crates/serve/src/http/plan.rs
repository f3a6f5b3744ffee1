//! What an HTTP server is to do: serialisable, so that it can be printed, handed to a child process and put in a report.

use super::tls::TlsPlan;
use crate::streams::Listening;
use corelane_proto::http::request::Limits;
use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// An HTTP server, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpPlan {
    /// Where and how it listens.
    #[serde(flatten)]
    pub listening: Listening,
    /// The folder of files to serve; `None` serves objects made on demand.
    pub root: Option<PathBuf>,
    /// With which certificate connections are encrypted; `None` for plain ones.
    #[serde(default)]
    pub tls: Option<TlsPlan>,
    /// Where to write the certificate that is made for this run, in PEM.
    #[serde(default)]
    pub write_certificate: Option<PathBuf>,
    /// What requests and connections may take.
    pub limits: HttpLimits,
    /// The file that gets a line for each answer; `-` is standard output. `None` keeps no log.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
}

/// What requests and connections may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpLimits {
    /// Bytes of a request line, its CR LF apart; more is 414.
    pub line_bytes: u32,
    /// Bytes of a head, the empty line that ends it among them; more is 431.
    pub head_bytes: u32,
    /// Fields of a head; more is 431.
    pub fields: u16,
    /// Bytes of a body; more is 413.
    pub body_bytes: u64,
    /// Requests that a connection may make; 0 for any number. The answer to the last one closes.
    pub requests: u32,
    /// How long a connection may be idle before it is closed, in milliseconds.
    pub idle_ms: u64,
    /// How long a head may take from its first byte on, in milliseconds; longer is 408.
    pub head_ms: u64,
    /// How long a body may stand still, in milliseconds; longer is 408.
    pub body_ms: u64,
    /// How long a client may take nothing of an answer, in milliseconds; then the connection is reset.
    pub write_ms: u64,
}

impl Default for HttpLimits {
    fn default() -> Self {
        let head = Limits::default();
        Self {
            line_bytes: head.line_bytes,
            head_bytes: head.head_bytes,
            fields: head.fields,
            body_bytes: 1 << 30,
            requests: 0,
            idle_ms: 60_000,
            head_ms: 10_000,
            body_ms: 30_000,
            write_ms: 30_000,
        }
    }
}

impl HttpLimits {
    pub(super) fn head(&self) -> Limits {
        Limits {
            line_bytes: self.line_bytes,
            head_bytes: self.head_bytes,
            fields: self.fields,
        }
    }
}

impl HttpPlan {
    /// A server of objects on `address`, steered by `steering`, with everything else at its default.
    #[must_use]
    pub fn new(address: SocketAddr, steering: Steering) -> Self {
        Self {
            listening: Listening::new(address, steering),
            root: None,
            tls: None,
            write_certificate: None,
            limits: HttpLimits::default(),
            access_log: None,
        }
    }
}
