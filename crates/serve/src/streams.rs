//! Servers of connections: one listener, one pinned worker and one block of counters per bucket. What differs between
//! protocols is their [`Protocol`].

use crate::causes::CauseCounters;
use crate::server::{ServeError, Server};
use crate::service::{self, Service};
use corelane_rss::{Steering, steer};
use corelane_worker::crew::Crew;
use corelane_worker::engine::{Chosen, EngineCounters, EngineKind, EngineSettings, Ops};
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::steered::SteeredGroup;
use corelane_worker::{CachePadded, Counter, WorkerSettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Where and how a server of connections listens: the part that all plans of such servers have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listening {
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
    /// The engine asked for; `None` chooses: for HTTP io_uring where the kernel has what it needs to be faster, else epoll.
    pub engine: Option<EngineKind>,
    /// Connections that may wait at each listener.
    pub backlog: u16,
    /// Gives each worker a descriptor table of its own, so that the limit of open files holds for each alone.
    pub own_descriptors: bool,
}

impl Listening {
    /// On `address`, steered by `steering`, with everything else at its default.
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
        }
    }

    /// Opens the listeners, in bucket order.
    fn open(&self) -> Result<Vec<TcpListener>, ServeError> {
        let buckets = service::buckets(&self.steering)?;
        let families = service::families(self.address);
        let program = match self.kernel_hash {
            true => None,
            false => Some(steer::program(&self.steering, families)?),
        };
        let settings = GroupSettings {
            free_bind: self.free_bind,
            ..GroupSettings::default()
        };
        let listeners = group::tcp(self.address, buckets, program.as_ref(), self.backlog, &settings);
        Ok(listeners?)
    }
}

/// The counts of a server of connections: the document that it ends with. `O` is what only servers of its protocol report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamsServed<B, O> {
    /// `corelane/served-http/1` and the like.
    pub schema: String,
    /// Where it listened.
    pub address: SocketAddr,
    /// What only servers of its protocol report.
    #[serde(flatten)]
    pub own: O,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<String>,
    /// What both ends must agree on.
    pub steering: Steering,
    /// One entry per bucket, in order.
    pub buckets: Vec<B>,
}

impl<B, O> StreamsServed<B, O> {
    /// One count of all buckets.
    #[must_use]
    pub fn sum(&self, count: impl Fn(&B) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }
}

/// What became of the connections of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// The bucket.
    pub bucket: u16,
    /// Where its worker runs.
    pub cpu: u32,
    /// Connections that came.
    pub accepted: u64,
    /// Connections that are open, or were when the server was stopped.
    pub open: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes that the kernel took to be sent.
    pub bytes_sent: u64,
    /// Connections that could not be accepted, by cause.
    pub accept_failed: BTreeMap<String, u64>,
    /// Connections that ended otherwise than closed, by cause.
    pub broken: BTreeMap<String, u64>,
}

/// What the engine of one bucket counts, as its worker publishes it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    accepted: Counter,
    closed: Counter,
    bytes_received: Counter,
    bytes_sent: Counter,
    accept_failed: CauseCounters,
    broken: CauseCounters,
}

impl ConnectionCounters {
    pub(crate) fn publish(&self, engine: &EngineCounters) {
        let streams = &engine.streams;
        self.accepted.set(streams.accepted);
        self.closed.set(streams.closed);
        self.bytes_received.set(streams.bytes_received);
        self.bytes_sent.set(streams.bytes_sent);
        self.accept_failed.set(&streams.accept_failed);
        self.broken.set(&streams.broken);
    }

    pub(crate) fn counts(&self, bucket: u16, cpu: u32) -> ConnectionCounts {
        let (accepted, broken) = (self.accepted.get(), self.broken.named());
        let ended = self.closed.get() + broken.values().sum::<u64>();
        ConnectionCounts {
            bucket,
            cpu,
            accepted,
            open: accepted.saturating_sub(ended),
            bytes_received: self.bytes_received.get(),
            bytes_sent: self.bytes_sent.get(),
            accept_failed: self.accept_failed.named(),
            broken,
        }
    }
}

/// What the servers of one protocol do with connections, and count of them. Its value is what all workers of a server share.
pub trait Protocol: Sized {
    const KIND: &'static str;
    const SCHEMA: &'static str;
    type Plan: Serialize + DeserializeOwned;
    type Counters: Default + Send + Sync + 'static;
    type Bucket: Service + Send + 'static;
    type BucketServed: Serialize + DeserializeOwned;
    type OwnServed: Serialize + DeserializeOwned;

    fn listening(plan: &Self::Plan) -> &Listening;

    /// Chooses the engine; prefers what suits the protocol.
    fn engine(asked: Option<EngineKind>) -> (Chosen, EngineSettings);

    /// Opens what the workers share.
    fn open(plan: &Self::Plan, address: SocketAddr) -> Result<Self, ServeError>;

    /// What the next worker runs, in bucket order.
    fn bucket(&mut self, plan: &Arc<Self::Plan>, counters: Arc<CachePadded<Self::Counters>>) -> Self::Bucket;

    fn bucket_served(counters: &Self::Counters, bucket: u16, cpu: u32) -> Self::BucketServed;

    fn own_served(&self, plan: &Self::Plan) -> Self::OwnServed;

    /// All workers have ended.
    fn stop(&mut self) {}
}

/// A server of connections that is running. Dropping it stops it.
pub struct StreamServer<P: Protocol> {
    plan: Arc<P::Plan>,
    address: SocketAddr,
    engine: Chosen,
    /// One block per worker.
    counters: Vec<Arc<CachePadded<P::Counters>>>,
    crew: Crew<()>,
    pub(crate) protocol: P,
    /// None where no program steers.
    group: Option<SteeredGroup>,
}

impl<P: Protocol> StreamServer<P> {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The steering in force.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        let planned = &P::listening(&self.plan).steering;
        self.group.as_ref().map_or(planned, SteeredGroup::steering)
    }
}

impl<P: Protocol> Server for StreamServer<P> {
    type Plan = P::Plan;
    type Served = StreamsServed<P::BucketServed, P::OwnServed>;
    type Error = ServeError;
    const KIND: &'static str = P::KIND;

    fn start(plan: P::Plan) -> Result<Self, ServeError> {
        let listening = P::listening(&plan);
        let listeners = listening.open()?;
        let address = listeners[0].local_addr().unwrap_or(listening.address);
        let group = match listening.kernel_hash {
            true => None,
            false => service::steered(&listeners, address, &listening.steering)?,
        };
        let (engine, settings) = P::engine(listening.engine);
        let protocol = P::open(&plan, address)?;
        let mut server = Self {
            plan: Arc::new(plan),
            address,
            engine,
            counters: Vec::new(),
            crew: Crew::new(),
            protocol,
            group,
        };
        let listening = P::listening(&server.plan);
        for (index, listener) in listeners.into_iter().enumerate() {
            let thread = WorkerSettings {
                own_descriptors: listening.own_descriptors,
                ..WorkerSettings::new(format!("bucket {index}"), listening.steering.cpus[index])
            };
            let counters = Arc::<CachePadded<P::Counters>>::default();
            let bucket = server.protocol.bucket(&server.plan, Arc::clone(&counters));
            server.counters.push(counters);
            let engine = (server.engine.kind, settings.clone());
            service::start(&mut server.crew, thread, engine, vec![listener.into()], bucket)?;
        }
        server.crew.begin_when_ready()?;
        Ok(server)
    }

    fn served(&mut self) -> Self::Served {
        let cpus = &P::listening(&self.plan).steering.cpus;
        let buckets = (0u16..).zip(cpus).zip(&self.counters);
        StreamsServed {
            schema: P::SCHEMA.to_owned(),
            address: self.address,
            own: self.protocol.own_served(&self.plan),
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            steering: self.steering().clone(),
            buckets: buckets
                .map(|((bucket, cpu), counters)| P::bucket_served(counters, bucket, *cpu))
                .collect(),
        }
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.group.as_mut()
    }

    fn stop(mut self) -> Result<Self::Served, ServeError> {
        self.crew.stop();
        self.crew.finish()?;
        self.protocol.stop();
        Ok(self.served())
    }
}

/// Registers the listeners that a worker was handed.
pub(crate) fn register(ops: &mut Ops, sockets: Vec<OwnedFd>) -> io::Result<()> {
    let mut listeners = sockets.into_iter().map(TcpListener::from);
    listeners.try_for_each(|listener| ops.listen(listener).map(drop))
}
