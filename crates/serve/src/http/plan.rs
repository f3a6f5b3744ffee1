//! What an HTTP server is to do: serialisable, so that it can be printed, handed to a child process and put in a report.

use super::access::AccessLogError;
use super::tls::TlsError;
use super::tls::TlsPlan;
use crate::listeners::ListenError;
use corelane_proto::http::request::Limits;
use corelane_rss::Steering;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::EngineKind;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// An HTTP server, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpPlan {
    /// Where to listen; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Listens on an address that no device has, such as one of a prefix routed to this machine.
    #[serde(default)]
    pub free_bind: bool,
    /// Key, table and CPUs: one worker for each of its buckets.
    pub steering: Steering,
    /// Leaves the choice among the listeners to the kernel's own hash: what exact steering is measured against.
    #[serde(default)]
    pub kernel_hash: bool,
    /// The engine asked for; `None` takes io_uring where the kernel has what it needs to be faster, else epoll.
    pub engine: Option<EngineKind>,
    /// Connections that may wait at each listener.
    pub backlog: u16,
    /// Gives each worker a descriptor table of its own, so that the limit of open files holds for each alone.
    pub own_descriptors: bool,
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
    /// The file that each answer is told in, by one line; `-` is standard output. `None` keeps no log.
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
            address,
            free_bind: false,
            steering,
            kernel_hash: false,
            engine: None,
            backlog: 4_096,
            own_descriptors: true,
            root: None,
            tls: None,
            write_certificate: None,
            limits: HttpLimits::default(),
            access_log: None,
        }
    }
}

pub(super) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Why an HTTP server could not start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpServeError {
    /// There are no listeners.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no access log.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// The threads could not start or go on.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
