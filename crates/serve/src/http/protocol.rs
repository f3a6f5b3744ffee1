//! HTTP as a protocol of the connection servers: state shared by workers, and counters per bucket.

use super::access::{AccessLog, AccessLogged, Lines};
use super::bucket::Bucket;
use super::context::HttpCounters;
use super::error::HttpError;
use super::output::{INPUT_BYTES, QUEUE_BYTES};
use super::plan::HttpPlan;
use crate::handshakes::HandshakeCounts;
use crate::server::ServeError;
use crate::shared::{lock, named, summed};
use crate::streams::{ConnectionCounts, Listening, Protocol, StreamServer, StreamsServed};
use corelane_worker::CachePadded;
use corelane_worker::engine::{Chosen, EngineCounters, EngineSettings, choose_batching};
use corelane_worker::tls::ServerSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::vec;

/// A running HTTP server. Dropping it stops it.
pub type HttpServer = StreamServer<Http>;

/// Results of an HTTP server: the final document of `serve http`.
pub type HttpServed = StreamsServed<BucketHttp, HttpOwn>;

/// Results specific to HTTP servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpOwn {
    /// Access log statistics, if a log is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLogged>,
}

/// The counters of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketHttp {
    /// Its connections.
    #[serde(flatten)]
    pub connections: ConnectionCounts,
    /// TLS handshakes.
    #[serde(flatten)]
    pub handshakes: HandshakeCounts,
    /// Requests with a parsed head.
    pub requests: u64,
    /// Responses by status, including `100 Continue`. All others are responses to `requests` and to rejected heads.
    pub answers: BTreeMap<u16, u64>,
    /// Request bodies read completely.
    pub bodies: u64,
    /// Their bytes.
    pub body_bytes: u64,
    /// Echoed bodies that matched the pattern.
    pub pattern_bodies: u64,
    /// Connections closed by the idle timeout.
    pub idle_closed: u64,
    /// Requests rejected and connections aborted, by cause.
    pub errors: BTreeMap<String, u64>,
}

impl BucketHttp {
    /// All errors by cause: `errors`, `accept_failed` and `broken`.
    pub fn all_errors(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.errors.iter().chain(self.connections.errors())
    }
}

impl HttpServed {
    /// Errors of all buckets: `errors`, `accept_failed` and `broken`.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        summed(self.buckets.iter().flat_map(BucketHttp::all_errors))
    }
}

impl HttpServer {
    /// Reopens the access log file after a rename. Does nothing without a log.
    pub fn reopen_access_log(&self) {
        if let Some(log) = &self.protocol.log {
            log.reopen();
        }
    }
}

/// HTTP/1.1, with the state shared by the workers of a server.
pub struct Http {
    tls: Option<ServerSettings>,
    log: Option<AccessLog>,
    /// For each worker not yet started, if a log is enabled.
    lines: vec::IntoIter<Lines>,
}

impl Protocol for Http {
    const NAME: &'static str = "http";
    const SCHEMA: &'static str = "corelane/served-http/1";
    type Error = HttpError;
    type Plan = HttpPlan;
    type Counters = HttpCounters;
    type Bucket = Bucket;
    type BucketServed = BucketHttp;
    type OwnServed = HttpOwn;

    #[inline(never)]
    fn start(plan: HttpPlan) -> Result<StreamServer<Self>, HttpError> {
        StreamServer::of_plan(plan)
    }

    fn listening(plan: &HttpPlan) -> &Listening {
        &plan.listening
    }

    fn engine(plan: &HttpPlan) -> (Chosen, EngineSettings) {
        let settings = EngineSettings {
            stream_buffer_bytes: INPUT_BYTES,
            stream_burst_bytes: INPUT_BYTES as u32,
            stream_queue_bytes: QUEUE_BYTES,
            ..EngineSettings::default()
        };
        (choose_batching(plan.listening.engine), settings)
    }

    fn open(plan: &HttpPlan, address: SocketAddr) -> Result<Self, HttpError> {
        let write = plan.write_certificate.as_deref();
        let tls = plan.tls.as_ref();
        let workers = plan.listening.steered.steering.table.buckets();
        let log = plan.access_log.as_deref();
        let (log, lines) = log
            .map(|path| AccessLog::open(path, workers))
            .transpose()?
            .unzip();
        Ok(Self {
            tls: tls
                .map(|tls| ServerSettings::new(tls, address.ip(), write, &[b"http/1.1", b"http/1.0"]))
                .transpose()
                .map_err(ServeError::from)?,
            log,
            lines: lines.unwrap_or_default().into_iter(),
        })
    }

    fn bucket(&mut self, plan: &Arc<HttpPlan>, counters: Arc<CachePadded<HttpCounters>>) -> Bucket {
        Bucket::new(Arc::clone(plan), self.tls.clone(), counters, self.lines.next())
    }

    fn bucket_served(
        counters: &HttpCounters,
        connections: ConnectionCounts,
        _: &EngineCounters,
    ) -> BucketHttp {
        BucketHttp {
            connections,
            handshakes: counters.handshakes.counts(),
            requests: counters.requests.get(),
            answers: counters.statuses(),
            bodies: counters.bodies.get(),
            body_bytes: counters.body_bytes.get(),
            pattern_bodies: counters.pattern_bodies.get(),
            idle_closed: counters.idle_closed.get(),
            errors: named(lock(&counters.faults).iter().map(|(name, count)| (*name, *count))),
        }
    }

    fn own_served(&self, _plan: &HttpPlan) -> HttpOwn {
        HttpOwn {
            access_log: self.log.as_ref().map(AccessLog::logged),
        }
    }

    fn stop(&mut self) -> Result<(), HttpError> {
        let stopped = self.log.as_mut().map_or(Ok(()), AccessLog::stop);
        Ok(stopped.map_err(ServeError::from)?)
    }
}
