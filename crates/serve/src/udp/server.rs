//! The running UDP server: starts the threads of its model, sums their counters, stops them.

use super::admission::Admission;
use super::answer::{Answering, Connected};
use super::bucket::BucketHandler;
use super::cause::DropCause;
use super::common::Common;
use super::counters::BucketCounters;
use super::describe::{Describing, SharedCounts};
use super::error::UdpError;
use super::flows::{Departed, Flows};
use super::model::{Mode, Model};
use super::plan::UdpPlan;
use super::served::{BucketServed, FlowCounts, UdpServed};
use super::service::{DatagramService, Echo, Sink};
use super::sockets::{Opened, SocketDrops};
use super::worker::{Farmed, Farming, Post};
use crate::check::Checked;
use crate::live_steering::LiveSteering;
use crate::server::{ServeError, Server};
use crate::service::{self, Published, Service};
use crate::shared::{lock, occurred};
use corelane_link::MarkedQueues;
use corelane_measure::words;
use corelane_rss::{Bucket, Steering};
use corelane_worker::crew::{Crew, ReadyCell};
use corelane_worker::engine::{Chosen, choose};
use corelane_worker::group::{self, Transport};
use corelane_worker::locality::{Direction, GroupObserver, ObserverSettings};
use corelane_worker::mailbox::mailbox;
use corelane_worker::memory::PageLocations;
use corelane_worker::rebalancing::Rebalancing;
use corelane_worker::steered::SteeredGroup;
use corelane_worker::{CachePadded, Counter, WorkerSettings};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

/// Capacity in flows of the sample ring from a worker to the control thread.
const SAMPLE_RING: usize = 1024;

/// Average number of datagrams per tapped datagram at first: a 200 ms trial under load still yields some hundred samples.
const TAP_INTERVAL: u32 = 64;

/// Payload capacity of a mailbox: some 2,000 datagrams of the posts' 510 bytes, a few milliseconds at one worker's
/// rate; a socket buffer of 4 MiB holds some 3,200 of them.
const MAILBOX_BYTES: usize = 1 << 20;

/// A running UDP server. Dropping it stops it.
pub struct UdpServer {
    common: Arc<Common>,
    /// Of the document of its service.
    schema: &'static str,
    engine: Chosen,
    /// One block per worker.
    counters: Vec<Arc<CachePadded<BucketCounters>>>,
    checked: Vec<Arc<CachePadded<Checked>>>,
    /// Memory placement of each worker, and its engine's counters.
    threads: Vec<(ReadyCell, Published)>,
    /// Datagrams rejected by each worker's mailbox; empty without mailboxes.
    mailbox_full: Vec<Arc<CachePadded<Counter>>>,
    drops: SocketDrops,
    /// Channel for sockets that workers open for single flows.
    connected: (mpsc::Sender<Connected>, mpsc::Receiver<Connected>),
    /// One per worker, if flows are counted.
    counted: Vec<SharedCounts>,
    flows: Flows,
    locality_unknown: Option<String>,
    tx_locality_unknown: Option<String>,
    crew: Crew<()>,
    steering: LiveSteering,
    /// Lets the sockets name their transmit queues; never read.
    _marked: Option<MarkedQueues>,
}

impl UdpServer {
    /// Starts the workers of a plan with a service each; returns when they are ready to receive.
    fn serving<S: DatagramService>(mut plan: UdpPlan, service: impl Fn() -> S) -> Result<Self, UdpError> {
        plan.check()?;
        plan.socket.address = group::canonical(plan.socket.address);
        // A socket with an address of its own receives nothing else, no broadcast and no multicast.
        plan.settings.destinations = plan.socket.address.ip().is_unspecified();
        let opened = Opened::of(&plan)?;
        let marked = opened.mark(&plan)?;
        let (drops, address) = (opened.watch()?, opened.address()?);
        // One each, except where flows get sockets of their own.
        plan.settings.sockets = 1;
        let engine = choose(plan.engine)
            .for_workers(plan.engine, opened.workers.len(), &plan.settings)
            .map_err(ServeError::Engine)?;
        let common = Common::new(plan, address);
        let plan = &common.plan;
        let steered = match plan.model {
            Model::Exact => &opened.workers[..],
            _ => &[],
        };
        let steered = (steered, plan.socket.families());
        let steering = LiveSteering::new(
            &plan.steered.steering,
            plan.steered.rebalance,
            steered,
            &common.steerer,
        )?;
        let received = tap(plan, Direction::Received, address);
        let sent = tap(plan, Direction::Sent, address);
        let mut server = Self {
            schema: S::SCHEMA,
            engine,
            common,
            counters: Vec::new(),
            checked: Vec::new(),
            threads: Vec::new(),
            mailbox_full: Vec::new(),
            drops,
            connected: mpsc::channel(),
            counted: Vec::new(),
            locality_unknown: received.as_ref().err().cloned(),
            tx_locality_unknown: sent.as_ref().err().cloned(),
            flows: Flows::new(received.ok(), sent.ok()),
            crew: Crew::new(),
            steering,
            _marked: marked,
        };
        server.start_threads(opened, service)?;
        Ok(server)
    }

    /// Starts the workers with a service each, and the reader of a model that has one.
    fn start_threads<S: DatagramService>(
        &mut self,
        opened: Opened,
        service: impl Fn() -> S,
    ) -> Result<(), UdpError> {
        let is_farm = self.common.plan.model == Model::Farm;
        let by_bucket: Vec<Vec<UdpSocket>> = (0..opened.workers.len())
            .map(|_| opened.for_answers(&self.common.plan))
            .collect::<Result<_, _>>()?;
        let mut posts = Vec::new();
        for (index, (socket, by_bucket)) in opened.workers.into_iter().zip(by_bucket).enumerate() {
            let handler = self.handler(index, service());
            let sockets = [socket].into_iter().chain(by_bucket).collect();
            let name = format!("bucket {index}");
            let thread = if is_farm {
                let (outbox, inbox) = mailbox(MAILBOX_BYTES);
                let farmed = Farmed {
                    inbox,
                    handler,
                    socket: None,
                };
                let worker = self.start_thread(name, index, sockets, farmed)?;
                let post = Post::new(outbox, Arc::clone(&worker.0));
                self.mailbox_full.push(Arc::clone(&post.full));
                posts.push(post);
                worker
            } else {
                self.start_thread(name, index, sockets, handler)?
            };
            self.threads.push(thread);
        }
        if let (true, Some(reader)) = (is_farm, opened.shared) {
            let farming = Farming {
                common: Arc::clone(&self.common),
                posts,
            };
            self.start_thread("reader".to_owned(), 0, vec![reader], farming)?;
        }
        self.crew.begin_when_ready().map_err(ServeError::from)?;
        Ok(())
    }

    /// The handler of worker `index`.
    fn handler<S>(&mut self, index: usize, service: S) -> BucketHandler<S> {
        let (producer, consumer) = rtrb::RingBuffer::new(SAMPLE_RING);
        self.flows.seen_by_workers.push(consumer);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        self.counters.push(Arc::clone(&counters));
        if self.common.plan.flows {
            self.counted.push(SharedCounts::default());
        }
        let (plan, common) = (&self.common.plan, || Arc::clone(&self.common));
        let describes = plan.metadata || plan.flows;
        let bucket = (plan.model != Model::Single).then(|| Bucket::new(index as u16));
        let check = self.steering.check(bucket);
        self.checked.push(Arc::clone(&check.checked));
        BucketHandler {
            service,
            admission: Admission::new(common(), Arc::clone(&counters), check, producer),
            answering: Answering {
                common: common(),
                counters,
                worker: index,
                opened: self.connected.0.clone(),
                own: None,
                by_bucket: Vec::new(),
                by_flow: HashMap::new(),
            },
            describing: describes.then(|| Describing::new(common(), self.counted.get(index).cloned())),
        }
    }

    /// Starts a thread on the CPU of a bucket.
    fn start_thread<S: Service + Send + 'static>(
        &mut self,
        name: String,
        bucket: usize,
        sockets: Vec<UdpSocket>,
        service: S,
    ) -> Result<(ReadyCell, Published), UdpError> {
        let thread = WorkerSettings {
            memory: self.common.plan.memory,
            ..WorkerSettings::new(name, self.common.plan.steered.steering.cpus[bucket])
        };
        let sockets = sockets.into_iter().map(OwnedFd::from).collect();
        let engine = (self.engine.kind, self.common.plan.settings.clone());
        Ok(service::start(
            &mut self.crew,
            thread,
            engine,
            sockets,
            service,
            (),
        )?)
    }

    /// The current steering.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        self.steering.current()
    }

    /// The listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.common.address
    }

    /// The datagrams so far by flow, if they are counted.
    #[must_use]
    pub fn flows(&self) -> Option<FlowCounts> {
        self.common.plan.flows.then(|| FlowCounts::of(&self.counted))
    }

    /// Processes samples; call it often, or samples are lost.
    fn collect_samples(&mut self) {
        self.flows.collect();
        for (worker, socket) in self.connected.1.try_iter() {
            self.drops.add(Some(worker), socket);
        }
        self.drops.look();
        self.common.refresh_echoes();
    }

    fn bucket_served(
        &self,
        index: usize,
        [locality_samples, locality_right]: [u64; 2],
        [tx_samples, tx_on_cpu, tx_on_queue, tx_right]: Departed,
        pages: Option<&PageLocations>,
    ) -> BucketServed {
        let (counters, checked) = (&self.counters[index], &self.checked[index]);
        let (ready, engine) = &self.threads[index];
        let engine = *lock(engine);
        let failed = engine
            .send_failed
            .by_cause()
            .map(|(cause, count)| (cause.into(), count));
        let mailbox_full = self.mailbox_full.get(index).map_or(0, |full| full.get());
        let before = self.drops.of(Some(index));
        let before = before.into_iter().chain([(DropCause::MailboxFull, mailbox_full)]);
        let own = counters.dropped.iter().map(Counter::get);
        let own = words::all::<DropCause>().into_iter().zip(own);
        BucketServed {
            bucket: index as u16,
            cpu: self.common.plan.steered.steering.cpus[index],
            seen: counters.seen.get(),
            seen_bytes: counters.seen_bytes.get(),
            answered: engine.sent,
            dropped: occurred(failed.into_iter().chain(before).chain(own)),
            steering_samples: checked.samples.get(),
            steering_right: checked.right.get(),
            locality_samples,
            locality_right,
            tx_samples,
            tx_on_cpu,
            tx_on_queue,
            tx_right,
            answered_unconnected: counters.answered_unconnected.get(),
            memory: ready.get().zip(pages).map(|(ready, pages)| {
                let plan = &self.common.plan;
                ready.buffers.report(plan.memory, plan.settings.memory, pages)
            }),
        }
    }

    /// The counters so far, with the location of memory if `pages` are known.
    fn document(&mut self, pages: Option<&PageLocations>) -> UdpServed {
        self.collect_samples();
        let workers = self.counters.len();
        let cpus = &self.common.plan.steered.steering.cpus[..workers];
        let locality = self.flows.locality(cpus);
        let departed = self
            .flows
            .departed(cpus, self.common.plan.transmit_queues.unwrap_or(1));
        UdpServed {
            schema: self.schema.to_owned(),
            address: self.common.address,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            model: self.common.plan.model,
            steering: self.steering().clone(),
            rebalanced: self.steering.rebalanced(),
            answers: self.common.plan.answers,
            buckets: (locality.into_iter().zip(departed).enumerate())
                .map(|(index, (locality, departed))| self.bucket_served(index, locality, departed, pages))
                .collect(),
            shared_dropped: occurred(self.drops.of(None)),
            locality_unknown: self.locality_unknown.clone(),
            tx_locality_unknown: self.tx_locality_unknown.clone(),
            flows: None,
            flows_uncounted: None,
        }
    }
}

impl Server for UdpServer {
    type Plan = UdpPlan;
    type Served = UdpServed;
    type Error = UdpError;
    const NAME: &'static str = Echo::NAME;

    fn start(plan: UdpPlan) -> Result<Self, UdpError> {
        match plan.mode {
            Mode::Echo => Self::serving(plan, || Echo),
            Mode::Sink => Self::serving(plan, || Sink),
        }
    }

    /// With the flows, if they are counted.
    fn served(&mut self) -> UdpServed {
        let counts = self.flows();
        let (flows, flows_uncounted) = counts.map(|counts| (counts.flows, counts.uncounted)).unzip();
        UdpServed {
            flows,
            flows_uncounted,
            ..self.document(Some(&PageLocations::read()))
        }
    }

    fn counts(&mut self) -> UdpServed {
        self.document(None)
    }

    fn poll(&mut self) -> Result<(), UdpError> {
        self.collect_samples();
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

    fn stop(mut self) -> Result<UdpServed, UdpError> {
        self.crew.stop();
        self.crew.finish().map_err(ServeError::from)?;
        Ok(self.served())
    }
}

/// A tap of one direction, or why there is none.
fn tap(plan: &UdpPlan, direction: Direction, address: SocketAddr) -> Result<GroupObserver, String> {
    let device = match (direction, &plan.device) {
        (Direction::Received, None) => Err("no device was named to watch (--watch DEVICE)"),
        (Direction::Sent, _) if plan.mode == Mode::Sink => Err("a sink does not answer"),
        (Direction::Sent, _) if plan.transmit_queues.is_none() => Err("not measured; add --answers"),
        (_, device) => device.as_ref().ok_or("not measured; add --answers"),
    };
    let settings = ObserverSettings {
        device: Some(device?.to_owned()),
        transport: Transport::Udp,
        direction,
        address,
        one_in: TAP_INTERVAL,
    };
    GroupObserver::new(&settings, plan.socket.families()).map_err(|error| error.to_string())
}
