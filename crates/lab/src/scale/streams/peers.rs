//! Derives the server (ours or a subject) and the clients of a step.

use super::document::{Server, Shape, Traffic};
use super::plan::{StreamsPlan, room};
use crate::child::SubjectPlan;
use crate::scale::plan;
use corelane_load::StreamLoadError;
use corelane_load::http::scenario::{ClientPool, Scenario, UrlEntry};
use corelane_load::http::{
    GATHER, HttpLoadError, HttpPlan as HttpLoadPlan, PlannedPhase, StatusRange, Timeouts, Until,
};
use corelane_load::sources::{Align, SourceRequest, Steerings, Transport, WorkerRequest};
use corelane_load::tcp::{Bytes, TcpPlan as TcpLoadPlan, TransferDirection, WRITE_BYTES};
use corelane_proto::http::url::{Scheme, Url};
use corelane_serve::Listening;
use corelane_serve::http::HttpPlan as HttpServePlan;
use corelane_serve::tcp::{SOURCE_WRITE_BYTES, TcpMode, TcpPlan as TcpServePlan};
use corelane_worker::engine::{EngineKind, MOST_ON_THE_RING};

/// Connections that may wait at each of our listeners: as many as `net.core.somaxconn` of the bed allows.
const LONGEST_BACKLOG: u16 = u16::MAX;

/// Timeout of opening a connection, and of a response. A million connections opened at full
/// speed on one CPU delay each other by seconds, and so does a response of a gigabyte.
const TIMEOUTS: Timeouts = Timeouts {
    connect_s: 60.0,
    continue_s: 1.0,
    first_byte_s: 60.0,
    request_s: 120.0,
    drain_s: DRAIN_S,
};

/// How long another of the last answers is awaited; for transfers, all bytes and the end of every connection. Buffered data
/// arrives within a second, and a subject that answers slowly or closes nothing must not delay the run for long.
const DRAIN_S: f64 = 5.0;
const DRAIN_S_A_CONNECTION: f64 = 50e-6;

/// A connection without progress for this long is stalled.
const STALL_S: f64 = 1.0;

/// Connections polled per second: each poll is a system call of the server (`TCP_INFO`).
const LOOKS_A_SECOND: f64 = 20_000.0;

impl Traffic {
    /// What client and server of a byte stream do; `None` for requests.
    pub(super) fn of_bytes(self) -> Option<(TransferDirection, TcpMode)> {
        match self {
            Self::Requests => None,
            Self::Sink => Some((TransferDirection::Write, TcpMode::Sink)),
            Self::Source => Some((TransferDirection::Read, TcpMode::Source)),
            Self::Echo => Some((TransferDirection::Both, TcpMode::Echo)),
        }
    }
}

impl StreamsPlan {
    /// The subject of a step.
    pub(crate) fn subject(&self, shape: &Shape) -> Option<SubjectPlan> {
        let subject = self.request.subject.as_ref()?;
        Some(SubjectPlan::new(
            &subject.command,
            self.server,
            self.server_cpus(shape),
        ))
    }

    /// Our server of requests in a step.
    pub(crate) fn http_server(&self, shape: &Shape) -> HttpServePlan {
        let request = &self.request;
        let mut plan = HttpServePlan::new(self.server, request.settings.steering.clone());
        // The server cannot know these values.
        let many = shape.connections > (MOST_ON_THE_RING * shape.buckets_active) as u64;
        plan.listening = Listening {
            engine: request.settings.engine.or(many.then_some(EngineKind::Epoll)),
            ..self.listening(shape)
        };
        // The experiment sets all timeouts, and all are shorter than this.
        plan.limits.idle_ms =
            ((request.settings.duration_s + TIMEOUTS.connect_s + TIMEOUTS.request_s) * 2e3) as u64;
        plan
    }

    /// Our server of bytes in a step.
    pub(crate) fn tcp_server(&self, shape: &Shape, mode: TcpMode) -> TcpServePlan {
        TcpServePlan {
            listening: self.listening(shape),
            mode,
            write_bytes: write_bytes(shape, SOURCE_WRITE_BYTES),
            stall_ms: (stall_s(shape) * 1e3) as u64,
            idle_ms: None,
            tls: None,
            write_certificate: None,
        }
    }

    /// The listeners of our server in a step.
    fn listening(&self, shape: &Shape) -> Listening {
        Listening {
            engine: self.request.settings.engine,
            backlog: LONGEST_BACKLOG,
            kernel_hash: shape.server == Server::Reuseport,
            own_descriptors: shape.connections > room(self.request.selection.descriptor_limit),
            memory: self.request.settings.memory,
            buffer_memory: self.request.settings.buffer_memory,
            ..Listening::new(self.server, self.request.settings.steering.clone())
        }
    }

    /// The clients' workers: with exact steering they aim at the active buckets, each from the CPU that the clients'
    /// steering document names for it.
    fn client_workers(&self, shape: &Shape) -> WorkerRequest {
        let (cpus, limit) = (self.client_cpus(shape), self.request.selection.descriptor_limit);
        let aimed = self.request.settings.clients(cpus, limit);
        match shape.server {
            Server::Exact => aimed,
            Server::Reuseport | Server::Subject => WorkerRequest {
                steering: Steerings::default(),
                buckets: None,
                ..aimed
            },
        }
    }

    /// The clients of a step that make requests.
    ///
    /// # Errors
    /// When the pool cannot reach a bucket, or has too few ports.
    pub fn http_load(&self, shape: &Shape) -> Result<HttpLoadPlan, HttpLoadError> {
        let request = &self.request;
        let client = ClientPool {
            name: "main".to_owned(),
            connections: shape.connections,
            rate: request.rate,
            status: Some(vec![StatusRange {
                first: 200,
                last: 299,
            }]),
            sources: Some(self.clients.clone()),
            align: align(shape),
            ..ClientPool::default()
        };
        let mut scenario = Scenario::of_url(&self.url(shape), client, UrlEntry::default());
        scenario.phase.push(PlannedPhase::hold(Until {
            duration_s: Some(request.settings.duration_s),
            ..Until::default()
        }));
        // The trial compares planned and observed buckets at the server.
        let timeouts = Timeouts {
            drain_s: drain_s(shape),
            ..TIMEOUTS
        };
        let plan = scenario.plan(&self.client_workers(shape), timeouts)?;
        Ok(HttpLoadPlan {
            engine: request.settings.engine,
            memory: request.settings.memory,
            buffer_memory: request.settings.buffer_memory,
            steering: Steerings::default(),
            ..plan.gathering(GATHER)
        })
    }

    /// The clients of a step that move bytes.
    ///
    /// # Errors
    /// When the pool cannot reach a bucket, or has too few ports.
    pub fn tcp_load(
        &self,
        shape: &Shape,
        direction: TransferDirection,
    ) -> Result<TcpLoadPlan, StreamLoadError> {
        let request = &self.request;
        let connections = shape.connections as f64;
        let sources = SourceRequest {
            align: align(shape),
            ..plan::sources(self.server, &self.clients, shape.connections as usize)
        };
        Ok(TcpLoadPlan {
            target: self.server.into(),
            others: Vec::new(),
            tls: None,
            transfer: Bytes {
                direction,
                write_bytes: write_bytes(shape, WRITE_BYTES),
                write_bytes_per_second: request.rate.map(|rate| (rate / connections).ceil() as u64),
                drain_s: Some(drain_s(shape)),
                stall_s: stall_s(shape),
            },
            duration_s: request.settings.duration_s,
            connect_timeout_s: TIMEOUTS.connect_s,
            engine: request.settings.engine,
            steering: Steerings::default(),
            memory: request.settings.memory,
            buffer_memory: request.settings.buffer_memory,
            workers: sources.plan(&self.client_workers(shape), Transport::Tcp)?,
        })
    }

    fn url(&self, shape: &Shape) -> Url {
        let size = shape.object_bytes.unwrap_or(0).to_string();
        let target = match &self.request.subject {
            Some(subject) => subject.path.as_deref().unwrap_or("/").replace("{size}", &size),
            None => format!("/size/{size}"),
        };
        Url {
            scheme: Scheme::Http,
            host: self.server.ip().to_string(),
            zone: None,
            port: self.server.port(),
            target,
        }
    }
}

fn align(shape: &Shape) -> Align {
    match shape.server {
        Server::Exact => Align::Bucket,
        Server::Reuseport | Server::Subject => Align::Kernel,
    }
}

/// Bytes per write of a step, at most `most`, which is also the default.
fn write_bytes(shape: &Shape, most: u32) -> u32 {
    let requested = shape.write_bytes.and_then(|bytes| u32::try_from(bytes).ok());
    requested.unwrap_or(most).min(most)
}

/// The longest that the next of the pending answers, or all pending bytes, are awaited.
pub(super) fn drain_s(shape: &Shape) -> f64 {
    DRAIN_S + shape.connections as f64 * DRAIN_S_A_CONNECTION
}

/// The stall timeout: longer for many connections, because polling each of them every second would disturb the
/// measurement.
fn stall_s(shape: &Shape) -> f64 {
    STALL_S.max(shape.connections as f64 / LOOKS_A_SECOND)
}
