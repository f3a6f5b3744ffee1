//! The plan of an HTTP server: serialisable, so that it can be printed, passed to a child process and included in a
//! report.

use crate::streams::Listening;
use corelane_proto::http::request::Limits;
use corelane_rss::Steering;
use corelane_worker::tls::Certificate;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A fully resolved HTTP server plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpPlan {
    /// Listener settings.
    #[serde(flatten)]
    pub listening: Listening,
    /// The folder of files to serve; `None` serves generated objects.
    pub root: Option<PathBuf>,
    /// Certificate for TLS; `None` for plaintext.
    #[serde(default)]
    pub tls: Option<Certificate>,
    /// File to which the self-signed certificate is written, in PEM.
    #[serde(default)]
    pub write_certificate: Option<PathBuf>,
    /// Limits of requests and connections.
    pub limits: HttpLimits,
    /// Access log file; `-` is standard output, `None` disables the log.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
}

/// Limits of requests and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpLimits {
    /// Maximum bytes of a request line, without CR LF; beyond: 414.
    pub line_bytes: u32,
    /// Maximum bytes of a head, including the final empty line; beyond: 431.
    pub head_bytes: u32,
    /// Maximum number of fields of a head; beyond: 431.
    pub fields: u16,
    /// Maximum bytes of a body; beyond: 413.
    pub body_bytes: u64,
    /// Maximum requests per connection; 0 for no limit. The last response closes.
    pub requests: u32,
    /// Idle timeout of a connection, in milliseconds.
    pub idle_ms: u64,
    /// Timeout of a TLS handshake, and of a head from its first byte on (beyond: 408), in milliseconds.
    pub head_ms: u64,
    /// Timeout of a body without progress, in milliseconds; beyond: 408.
    pub body_ms: u64,
    /// Timeout of a response that the client does not read, in milliseconds; beyond, the connection is reset.
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
    /// A server of generated objects on `address`, steered by `steering`, with defaults otherwise.
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
