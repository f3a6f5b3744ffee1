//! The plan of the experiment: its steps as data, and server and clients of each.

use super::document::{Server, Shape, Transport};
use crate::child::SubjectPlan;
use crate::placing::{ONE_CPU, Placement, active_counts, lasting, sorted};
use crate::scale::plan::{self, Settings};
use corelane_host::bed::Bed;
use corelane_load::memcached::{
    Memcached, MemcachedPlan as StreamPlan, MemcachedUdpPlan as DatagramPlan, PlannedPool, Timeouts,
};
use corelane_load::pace::Pace;
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, PlannedWorker, SourceError, SourceRequest, Transport as Carrier};
use corelane_serve::memcached::MemcachedPlan;
use corelane_worker::engine::EngineSettings;
use serde::Serialize;
use std::net::SocketAddr;

/// How long the last answers are awaited: on a busy machine a worker of the server may wait this long for its CPU.
const DRAIN_S: f64 = 2.0;

/// Timeout of connections and requests over TCP.
const TIMEOUT_S: f64 = 10.0;

/// The user's request.
#[derive(Debug, Clone, Serialize)]
pub struct MemcachedScaleRequest {
    /// Which steps are measured.
    #[serde(flatten)]
    pub selection: plan::Selection,
    /// Settings of every step.
    #[serde(flatten)]
    pub settings: Settings,
    /// What carries the requests.
    pub transport: Transport,
    /// The shell command of another server, beside ours.
    pub subject: Option<String>,
    /// What is asked for; with the owners of keys, our server has their seed, and clients of a bucket ask for its keys.
    #[serde(flatten)]
    pub protocol: Memcached,
    /// Client sockets or connections per bucket.
    pub flows: usize,
    /// Unanswered requests per socket or connection.
    pub window: u32,
    /// How clients send and receive datagrams.
    pub client_io: EngineSettings,
    /// Bytes of memory of our server.
    pub memory_bytes: u64,
}

/// The resolved plan.
#[derive(Debug, Clone, Serialize)]
pub struct MemcachedScalePlan {
    /// The request.
    #[serde(flatten)]
    pub request: MemcachedScaleRequest,
    /// Where the server listens.
    pub server: SocketAddr,
    /// The clients' address pool.
    pub clients: Pool,
    /// Every step.
    pub steps: Vec<Shape>,
    /// Steps that cannot run here, with reasons.
    pub left_out: Vec<String>,
}

impl MemcachedScalePlan {
    /// The steps of `request` on `bed`.
    #[must_use]
    pub fn new(request: MemcachedScaleRequest, bed: &Bed, port: u16) -> Self {
        let buckets = request.settings.steering.table.buckets();
        let (mut left_out, mut steps) = (Vec::new(), Vec::new());
        let servers = [
            Some(Server::Corelane),
            request.subject.as_ref().map(|_| Server::Subject),
        ];
        for server in servers.into_iter().flatten() {
            for &placement in Placement::chosen(request.selection.placements.as_deref(), true) {
                if !placement.is_possible(&request.settings.steering.cpus) {
                    left_out = vec![ONE_CPU.to_owned()];
                    continue;
                }
                let counts = active_counts(buckets, request.selection.quick);
                steps.extend(counts.into_iter().map(|buckets_active| Shape {
                    server,
                    placement,
                    buckets_active,
                }));
            }
        }
        Self {
            request,
            server: SocketAddr::new(bed.server.address(), port),
            clients: bed.clients().iter().copied().collect(),
            steps,
            left_out,
        }
    }

    /// Our server.
    pub(super) fn ours(&self) -> MemcachedPlan {
        let (request, settings) = (&self.request, &self.request.settings);
        let mut plan = MemcachedPlan::new(self.server, settings.steering.clone());
        plan.listening.engine = settings.engine;
        plan.listening.memory = settings.memory;
        plan.listening.buffer_memory = settings.buffer_memory;
        plan.memory_bytes = request.memory_bytes;
        plan.seed = request.protocol.owners.map(|owners| owners.seed);
        if request.transport == Transport::Udp {
            plan.udp = vec![self.server];
        }
        plan
    }

    /// The other server of a step.
    pub(super) fn subject(&self, step: &Shape) -> Option<SubjectPlan> {
        let command = self.request.subject.as_ref()?;
        (step.server == Server::Subject)
            .then(|| SubjectPlan::new(command, self.server, self.server_cpus(step)))
    }

    /// The CPUs of the active buckets.
    fn server_cpus(&self, step: &Shape) -> Vec<u32> {
        self.request.settings.steering.cpus[..step.buckets_active].to_vec()
    }

    /// The clients' sockets, by worker.
    fn workers(
        &self,
        step: &Shape,
        carrier: Carrier,
        descriptor_limit: usize,
    ) -> Result<Vec<PlannedWorker>, SourceError> {
        let (settings, active) = (&self.request.settings, step.buckets_active);
        let sockets = self.request.flows * active;
        let sources = SourceRequest {
            align: match self.protocol(step).owners {
                Some(_) => Align::Owner,
                None => Align::Bucket,
            },
            ..plan::sources(self.server, &self.clients, sockets)
        };
        let cpus = step.placement.client_cpus(&settings.steering.cpus, active);
        sources.plan(&settings.clients(cpus, descriptor_limit), carrier)
    }

    /// What the clients of a step ask for. Of the other server, every worker owns every key.
    fn protocol(&self, step: &Shape) -> Memcached {
        let mut protocol = self.request.protocol.clone();
        if step.server == Server::Subject {
            protocol.owners = None;
        }
        protocol
    }

    /// The clients of a step over UDP.
    ///
    /// # Errors
    /// If the pool cannot reach a bucket.
    pub fn datagrams(&self, step: &Shape, descriptor_limit: usize) -> Result<DatagramPlan, SourceError> {
        let (request, settings) = (&self.request, &self.request.settings);
        let workers = self.workers(step, Carrier::Udp, descriptor_limit)?;
        Ok(DatagramPlan {
            pace: Pace::Window {
                datagrams: request.window,
            },
            until: lasting(settings.duration_s),
            drain_s: Some(DRAIN_S),
            engine: settings.engine,
            settings: request.client_io.clone(),
            memory: settings.memory,
            ..DatagramPlan::new(self.server, self.protocol(step), workers)
        })
    }

    /// The clients of a step over TCP.
    ///
    /// # Errors
    /// If the pool cannot reach a bucket.
    pub fn streams(&self, step: &Shape, descriptor_limit: usize) -> Result<StreamPlan, SourceError> {
        let (request, settings) = (&self.request, &self.request.settings);
        let workers = self.workers(step, Carrier::Tcp, descriptor_limit)?;
        let protocol = Memcached {
            pipeline: request.window as usize,
            ..self.protocol(step)
        };
        let connections = request.flows * step.buckets_active;
        let pool = PlannedPool::new(self.server.into(), protocol, connections);
        Ok(StreamPlan {
            timeouts: Timeouts {
                connect_s: TIMEOUT_S,
                first_byte_s: TIMEOUT_S,
                request_s: TIMEOUT_S,
                drain_s: DRAIN_S,
                ..Timeouts::default()
            },
            engine: settings.engine,
            memory: settings.memory,
            buffer_memory: settings.buffer_memory,
            ..StreamPlan::new(vec![pool], settings.duration_s, &workers)
        })
    }

    /// CPUs on which clients or workers of the step run.
    pub(super) fn cpus(&self, step: &Shape) -> Vec<u32> {
        let all = &self.request.settings.steering.cpus;
        let mut cpus = self.server_cpus(step);
        cpus.extend(step.placement.client_cpus(all, step.buckets_active));
        sorted(cpus)
    }
}
