//! Servers of connections: one listener, one pinned worker and one block of counters per bucket. Protocols implement
//! [`Protocol`].

use crate::check::Checked;
use crate::connections::Accepting;
use crate::listening::{SocketPlan, SteeringPlan};
use crate::live_steering::LiveSteering;
use crate::server::{ServeError, Server};
use crate::service::{self, Published, Service};
use crate::shared::{lock, named, share};
use arc_swap::ArcSwap;
use corelane_host::memory::MemoryPolicy;
use corelane_measure::share::Share;
use corelane_rss::steer::{self, Families};
use corelane_rss::{Bucket, Steering};
use corelane_worker::crew::{Crew, Ready, ReadyCell};
use corelane_worker::engine::{
    Chosen, EngineCounters, EngineKind, EngineSettings, FailureCounts, Ops, Slots, StreamCounters,
};
use corelane_worker::group;
use corelane_worker::memory::PageLocations;
use corelane_worker::rebalancing::{Rebalanced, Rebalancing};
use corelane_worker::steered::SteeredGroup;
use corelane_worker::worker_memory::WorkerMemory;
use corelane_worker::{CachePadded, WorkerSettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Listener settings, shared by the plans of all connection servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listening {
    /// Where it listens.
    #[serde(flatten)]
    pub socket: SocketPlan,
    /// How connections are steered.
    #[serde(flatten)]
    pub steered: SteeringPlan,
    /// Leaves the selection of listeners to the kernel's hash: the baseline for exact steering.
    #[serde(default)]
    pub kernel_hash: bool,
    /// The requested engine; `None` chooses: for HTTP io_uring if the kernel has the features that make it faster, else
    /// epoll.
    pub engine: Option<EngineKind>,
    /// Listen backlog per listener.
    pub backlog: u16,
    /// Gives each worker its own descriptor table, so that the limit of open files applies to each worker separately.
    pub own_descriptors: bool,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// That of the buffers that connections receive into and send from, if different.
    #[serde(default)]
    pub buffer_memory: Option<MemoryPolicy>,
}

impl Listening {
    /// Listens on `address`, steered by `steering`, with defaults otherwise.
    #[must_use]
    pub fn new(address: SocketAddr, steering: Steering) -> Self {
        Self {
            socket: SocketPlan::new(address),
            steered: steering.into(),
            kernel_hash: false,
            engine: None,
            backlog: 4_096,
            own_descriptors: true,
            memory: MemoryPolicy::default(),
            buffer_memory: None,
        }
    }

    /// Opens the listeners, in bucket order.
    fn open(&self) -> Result<Vec<TcpListener>, ServeError> {
        let (socket, steering) = (&self.socket, &self.steered.steering);
        let buckets = service::buckets(steering)?;
        let program = match self.kernel_hash {
            true => None,
            false => Some(steer::program(steering, socket.families())?),
        };
        let settings = socket.settings();
        let listeners = group::tcp(socket.address, buckets, program.as_ref(), self.backlog, &settings);
        Ok(listeners?)
    }

    fn group(&self, listeners: Vec<TcpListener>) -> SocketGroup {
        SocketGroup {
            sockets: listeners.into_iter().map(OwnedFd::from).collect(),
            families: (!self.kernel_hash).then(|| self.socket.families()),
        }
    }
}

/// Results of a connection server: its final document. `O` has the results specific to the protocol.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamsServed<B, O> {
    /// Format, such as `corelane/served-http/1`.
    pub schema: String,
    /// The listen address.
    pub address: SocketAddr,
    /// Results specific to the protocol.
    #[serde(flatten)]
    pub own: O,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine.
    pub engine_reason: Option<String>,
    /// Steering settings, on which both ends must agree.
    pub steering: Steering,
    /// What rebalancing moved, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalanced: Option<Rebalanced>,
    /// One entry per bucket, in order.
    pub buckets: Vec<B>,
    /// NUMA placement of each bucket's memory; empty in counts that are read while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<WorkerMemory>,
}

impl<B, O> StreamsServed<B, O> {
    /// Sum of one counter over all buckets.
    #[must_use]
    pub fn sum(&self, count: impl Fn(&B) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }
}

/// Connection counters of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// The bucket.
    pub bucket: u16,
    /// CPU of its worker.
    pub cpu: u32,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now, or when the server was stopped.
    pub open: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes accepted by the kernel for sending.
    pub bytes_sent: u64,
    /// Connections, and a sample of the datagrams, that were compared with the bucket of their hash.
    #[serde(default)]
    pub steering_samples: u64,
    /// Those that reached the bucket that their hash selects.
    #[serde(default)]
    pub steering_right: u64,
    /// Connections of which the kernel knew, when they were accepted, the CPU that received their last packet.
    #[serde(default)]
    pub locality_samples: u64,
    /// Those received on the CPU of their worker.
    #[serde(default)]
    pub locality_right: u64,
    /// Failed accepts, by cause.
    pub accept_failed: BTreeMap<String, u64>,
    /// Connections that ended abnormally, by cause.
    pub broken: BTreeMap<String, u64>,
}

impl ConnectionCounts {
    /// Failures by cause: `accept_failed` and `broken`.
    pub fn errors(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.accept_failed.iter().chain(&self.broken)
    }

    /// Share of connections and sampled datagrams that reached the bucket that their hash selects.
    #[must_use]
    pub fn steering(&self) -> Share {
        share(self.steering_right, self.steering_samples)
    }

    /// Share of connections received on the CPU of their worker, as of their acceptance.
    #[must_use]
    pub fn locality(&self) -> Share {
        share(self.locality_right, self.locality_samples)
    }

    pub(crate) fn of(streams: &StreamCounters, checked: &Checked, bucket: u16, cpu: u32) -> Self {
        let accepted = &streams.accepted;
        Self {
            bucket,
            cpu,
            accepted: accepted.opened,
            open: accepted.open(),
            bytes_received: streams.bytes_received,
            bytes_sent: streams.bytes_sent,
            steering_samples: checked.samples.get(),
            steering_right: checked.right.get(),
            locality_samples: checked.received.get(),
            locality_right: checked.local.get(),
            accept_failed: failures(&accepted.failed),
            broken: failures(&accepted.broken),
        }
    }
}

/// Failures by the name of their cause.
fn failures(counts: &FailureCounts) -> BTreeMap<String, u64> {
    named(counts.by_cause().map(|(cause, count)| (cause.name(), count)))
}

/// A protocol of connection servers: what to do with connections, and what to count. Its value is the state shared by
/// all workers of a server.
pub trait Protocol: Sized {
    /// Its name in metrics, and between processes.
    const NAME: &'static str;
    /// Name and version of its document.
    const SCHEMA: &'static str;
    /// Why a server of this protocol could not start or continue.
    type Error: Error + From<ServeError> + Send + Sync + 'static;
    type Plan: Serialize + DeserializeOwned;
    type Counters: Default + Send + Sync + 'static;
    type Bucket: Service + Send + 'static;
    type BucketServed: Serialize + DeserializeOwned + 'static;
    type OwnServed: Serialize + DeserializeOwned + 'static;

    /// Starts a server of this protocol: [`StreamServer::of_plan`]. Not a provided method, because it must not be generic: the loops of the
    /// workers are compiled with this crate, once, instead of with every program that starts it.
    fn start(plan: Self::Plan) -> Result<StreamServer<Self>, Self::Error>;

    fn listening(plan: &Self::Plan) -> &Listening;

    /// Selects the engine, with the protocol's preference, and its settings.
    fn engine(plan: &Self::Plan) -> (Chosen, EngineSettings);

    /// Opens the shared state.
    fn open(plan: &Self::Plan, address: SocketAddr) -> Result<Self, Self::Error>;

    /// The service of the next worker, in bucket order.
    fn bucket(&mut self, plan: &Arc<Self::Plan>, counters: Arc<CachePadded<Self::Counters>>) -> Self::Bucket;

    /// Whether workers have listeners at the address of the plan.
    fn listens(_plan: &Self::Plan) -> bool {
        true
    }

    /// Whether workers have sockets of datagrams that the table steers.
    fn steers_datagrams(_plan: &Self::Plan) -> bool {
        false
    }

    /// Other sockets of the workers, opened for a server that listens at `address`; each worker's are passed to its service
    /// behind the listener.
    fn groups(&mut self, _plan: &Self::Plan, _address: SocketAddr) -> Result<Vec<SocketGroup>, Self::Error> {
        Ok(Vec::new())
    }

    /// Called before workers start, if a program steers the sockets: what changes its table later.
    fn steered(&self, _group: &mut SteeredGroup) {}

    /// The results of a worker, from its own counters, those of its connections, and all of its engine.
    fn bucket_served(
        counters: &Self::Counters,
        connections: ConnectionCounts,
        engine: &EngineCounters,
    ) -> Self::BucketServed;

    fn own_served(&self, plan: &Self::Plan) -> Self::OwnServed;

    /// Called when all workers have ended.
    fn stop(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Sockets of the same kind, one per worker, in bucket order.
pub struct SocketGroup {
    pub(crate) sockets: Vec<OwnedFd>,
    /// The families of the program that steers them; `None` if no program does.
    pub(crate) families: Option<Families>,
}

impl SocketGroup {
    fn steered(&self) -> Option<(&[OwnedFd], Families)> {
        let families = self.families.filter(|_| !self.sockets.is_empty())?;
        Some((&self.sockets, families))
    }
}

/// A running connection server. Dropping it stops it.
pub struct StreamServer<P: Protocol> {
    plan: Arc<P::Plan>,
    address: SocketAddr,
    engine: Chosen,
    /// One per worker.
    counters: Vec<WorkerCounters<P::Counters>>,
    ready: Vec<ReadyCell>,
    crew: Crew<()>,
    pub(crate) protocol: P,
    steering: LiveSteering,
}

/// The counters of a worker: of its protocol, of its checks, and of its engine.
struct WorkerCounters<C> {
    own: Arc<CachePadded<C>>,
    checked: Arc<CachePadded<Checked>>,
    engine: Published,
}

impl<P: Protocol> StreamServer<P> {
    /// The listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The current steering.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        self.steering.current()
    }
}

impl<P: Protocol> StreamServer<P> {
    /// Starts the workers of a plan; returns when they listen.
    pub(crate) fn of_plan(plan: P::Plan) -> Result<Self, P::Error> {
        let listening = P::listening(&plan);
        let workers = service::buckets(&listening.steered.steering)?;
        let listeners = if P::listens(&plan) {
            listening.open()?
        } else {
            Vec::new()
        };
        let address = listeners.first().and_then(|listener| listener.local_addr().ok());
        let address = address.unwrap_or(listening.socket.address);
        let (engine, mut settings) = P::engine(&plan);
        settings.memory = listening.buffer_memory;
        let engine = engine
            .for_workers(listening.engine, workers, &settings)
            .map_err(ServeError::Engine)?;
        let mut protocol = P::open(&plan, address)?;
        let mut groups = vec![listening.group(listeners)];
        groups.extend(protocol.groups(&plan, address)?);
        let steering = steering(&protocol, listening, &groups)?;
        let sockets = |group: SocketGroup| group.sockets.into_iter();
        let mut groups: Vec<_> = groups.into_iter().map(sockets).collect();
        let mut server = Self {
            plan: Arc::new(plan),
            address,
            engine,
            counters: Vec::new(),
            ready: Vec::new(),
            crew: Crew::new(),
            protocol,
            steering,
        };
        let listening = P::listening(&server.plan);
        for index in 0..workers {
            let thread = WorkerSettings {
                own_descriptors: listening.own_descriptors,
                memory: listening.memory,
                ..WorkerSettings::new(format!("bucket {index}"), listening.steered.steering.cpus[index])
            };
            let own = Arc::<CachePadded<P::Counters>>::default();
            let service = server.protocol.bucket(&server.plan, Arc::clone(&own));
            let check = server.steering.check(Some(Bucket::new(index as u16)));
            let accepting = Accepting {
                datagrams: P::steers_datagrams(&server.plan).then(|| check.sampler()),
                check,
                cpu: listening.steered.steering.cpus[index],
                address,
                entries: Slots::default(),
            };
            let checked = Arc::clone(&accepting.check.checked);
            let engine = (server.engine.kind, settings.clone());
            let sockets = groups.iter_mut().filter_map(Iterator::next).collect();
            let (ready, engine) =
                service::start(&mut server.crew, thread, engine, sockets, service, accepting)?;
            server.counters.push(WorkerCounters { own, checked, engine });
            server.ready.push(ready);
        }
        server.crew.begin_when_ready().map_err(ServeError::from)?;
        Ok(server)
    }

    /// The counters so far, with the location of memory if `pages` are known.
    fn document(&self, pages: Option<&PageLocations>) -> StreamsServed<P::BucketServed, P::OwnServed> {
        let listening = P::listening(&self.plan);
        let cpus = &listening.steered.steering.cpus;
        let workers = self.ready.iter().filter_map(|ready| ready.get());
        let memory = pages.into_iter().flat_map(|pages| {
            let of = |ready: &Ready| {
                ready
                    .buffers
                    .report(listening.memory, listening.buffer_memory, pages)
            };
            workers.clone().map(of)
        });
        let buckets = (0u16..).zip(cpus).zip(&self.counters);
        StreamsServed {
            schema: P::SCHEMA.to_owned(),
            address: self.address,
            own: self.protocol.own_served(&self.plan),
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            steering: self.steering().clone(),
            rebalanced: self.steering.rebalanced(),
            buckets: buckets
                .map(|((bucket, cpu), counters)| {
                    let engine = *lock(&counters.engine);
                    let connections = ConnectionCounts::of(&engine.streams, &counters.checked, bucket, *cpu);
                    P::bucket_served(&counters.own, connections, &engine)
                })
                .collect(),
            memory: memory.collect(),
        }
    }
}

impl<P: Protocol> Server for StreamServer<P> {
    type Plan = P::Plan;
    type Served = StreamsServed<P::BucketServed, P::OwnServed>;
    type Error = P::Error;
    const NAME: &'static str = P::NAME;

    fn start(plan: P::Plan) -> Result<Self, P::Error> {
        P::start(plan)
    }

    fn served(&mut self) -> Self::Served {
        self.document(Some(&PageLocations::read()))
    }

    fn counts(&mut self) -> Self::Served {
        self.document(None)
    }

    fn poll(&mut self) -> Result<(), P::Error> {
        self.steering.look();
        Ok(())
    }

    fn rebalancing(&mut self) -> Option<&mut Rebalancing> {
        self.steering.rebalancing.as_mut()
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.steering.group.as_mut()
    }

    fn stop(mut self) -> Result<Self::Served, P::Error> {
        self.crew.stop();
        self.crew.finish().map_err(ServeError::from)?;
        self.protocol.stop()?;
        Ok(self.served())
    }
}

/// The steering of a server with these groups.
fn steering<P: Protocol>(
    protocol: &P,
    listening: &Listening,
    groups: &[SocketGroup],
) -> Result<LiveSteering, ServeError> {
    let steered: Vec<_> = groups.iter().filter_map(SocketGroup::steered).collect();
    let SteeringPlan { steering, rebalance } = &listening.steered;
    let steerer = Arc::new(ArcSwap::from_pointee(steering.steerer()));
    let (first, others) = match &steered[..] {
        [first, others @ ..] => (*first, others),
        [] => ((&[][..], Families::V4), &[][..]),
    };
    let mut live = LiveSteering::new(steering, *rebalance, first, &steerer)?;
    for (sockets, families) in others {
        if let (Some(group), Some(member)) = (&mut live.group, sockets.first()) {
            let also = group.also(member, *families);
            also.map_err(ServeError::socket("duplicate a socket of the group"))?;
        }
    }
    if let Some(group) = &mut live.group {
        protocol.steered(group);
    }
    Ok(live)
}

/// Registers the listeners of a worker.
pub(crate) fn register(ops: &mut Ops, sockets: Vec<OwnedFd>) -> io::Result<()> {
    sockets
        .into_iter()
        .try_for_each(|listener| ops.listen(listener).map(drop))
}
