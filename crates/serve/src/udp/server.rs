//! The running UDP server: starts the threads of its model, tells their counts, stops them.

use super::answer::{Answering, Connected};
use super::bucket::{BucketCounters, BucketHandler, Ways};
use super::current::Current;
use super::describe::{Counting, Describing, FlowCounts};
use super::flows::{Departed, Flows, Taps};
use super::mailbox;
use super::plan::{UdpPlan, UdpServeError};
use super::served::{BucketServed, UdpServed};
use super::sockets::{Opened, SocketDrops};
use super::worker::{Farmed, Farming, Post};
use crate::service::{self, Service};
use crate::udp::{Mode, Model};
use crate::{Server, TableError};
use corelane_rss::{Bucket, Steering};
use corelane_worker::crew::{Crew, ReadyCell};
use corelane_worker::engine::{Chosen, FailureCounts, choose};
use corelane_worker::locality::{Direction, Observer, ObserverSettings};
use corelane_worker::steered::SteeredGroup;
use corelane_worker::{CachePadded, Counter, WorkerSettings};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Sampled flows in flight from a worker to the control thread.
const SAMPLE_RING: usize = 1024;

/// The tap takes one datagram in so many, at random: a trial of 200 ms on a busy machine still gives some hundred samples.
const TAP_INTERVAL: u32 = 64;

/// How long a worker may take to tell its flows: it looks every 20 ms, and its CPU may be busy.
const FLOWS_WITHIN: Duration = Duration::from_secs(1);

/// A UDP server that is running. Dropping it stops it.
pub struct UdpServer {
    plan: Arc<UdpPlan>,
    steerer: Arc<Current>,
    address: SocketAddr,
    engine: Chosen,
    /// One block a worker.
    counters: Vec<Arc<CachePadded<BucketCounters>>>,
    /// Of each worker, where its memory is.
    ready: Vec<ReadyCell>,
    /// What did not fit each worker's mailbox; empty where there are none.
    mailbox_full: Vec<Arc<CachePadded<Counter>>>,
    drops: SocketDrops,
    /// Sockets that workers opened for one flow each, and where those come in.
    connected: (mpsc::Sender<Connected>, mpsc::Receiver<Connected>),
    /// None where flows are not counted.
    counting: Option<Counting>,
    flows: Flows,
    locality_unknown: Option<String>,
    tx_locality_unknown: Option<String>,
    crew: Crew<()>,
    /// None where no program steers.
    group: Option<SteeredGroup>,
}

impl UdpServer {
    fn start_threads(&mut self, opened: Opened) -> Result<Vec<rtrb::Consumer<SocketAddr>>, UdpServeError> {
        let mut sampled = Vec::new();
        let mut for_answers = opened.for_answers(&self.plan)?.into_iter();
        match opened {
            Opened::Own(sockets) | Opened::Shared(sockets) => {
                for (index, socket) in sockets.into_iter().enumerate() {
                    let (handler, samples) = self.handler(index);
                    sampled.push(samples);
                    let by_bucket = for_answers.next().unwrap_or_default();
                    let sockets = [socket].into_iter().chain(by_bucket).collect();
                    self.start_worker(index, sockets, handler)?;
                }
            }
            Opened::Farmed { reader, answering } => {
                let mut posts = Vec::new();
                for (index, socket) in answering.into_iter().enumerate() {
                    let (handler, samples) = self.handler(index);
                    sampled.push(samples);
                    posts.push(self.start_farmed(index, socket, handler)?);
                }
                let farming = Farming::new(self.address, Arc::clone(&self.steerer), posts);
                self.start_thread("reader".to_owned(), 0, vec![reader], farming)?;
            }
        }
        self.crew.begin_when_ready()?;
        Ok(sampled)
    }

    /// The handler of worker `index`, and where what it samples comes out.
    fn handler(&mut self, index: usize) -> (BucketHandler, rtrb::Consumer<SocketAddr>) {
        let (producer, consumer) = rtrb::RingBuffer::new(SAMPLE_RING);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        self.counters.push(Arc::clone(&counters));
        let (plan, opened) = (&self.plan, self.connected.0.clone());
        let describes = plan.metadata || plan.flows;
        let ways = Ways {
            answering: Answering::new(plan, self.address, &self.steerer, index, opened),
            describing: describes.then(|| {
                let telling = self.counting.as_ref().map(|counting| counting.telling(index));
                Describing::new(self.address, Arc::clone(&self.steerer), telling)
            }),
        };
        let handler = BucketHandler::new(
            Bucket::new(index as u16),
            self.address,
            Arc::clone(&self.plan),
            Arc::clone(&self.steerer),
            counters,
            producer,
            ways,
        );
        (handler, consumer)
    }

    /// Starts a worker behind a mailbox, and returns the reader's way to it.
    fn start_farmed(
        &mut self,
        index: usize,
        socket: UdpSocket,
        handler: BucketHandler,
    ) -> Result<Post, UdpServeError> {
        let (outbox, inbox) = mailbox::new();
        let farmed = Farmed {
            inbox,
            handler,
            socket: None,
        };
        let worker = self.start_worker(index, vec![socket], farmed)?;
        let full = Arc::<CachePadded<Counter>>::default();
        self.mailbox_full.push(Arc::clone(&full));
        Ok(Post { outbox, worker, full })
    }

    fn start_worker<S: Service + Send + 'static>(
        &mut self,
        index: usize,
        sockets: Vec<UdpSocket>,
        service: S,
    ) -> Result<ReadyCell, UdpServeError> {
        let ready = self.start_thread(format!("bucket {index}"), index, sockets, service)?;
        self.ready.push(Arc::clone(&ready));
        Ok(ready)
    }

    /// Starts a thread on the CPU of a bucket.
    fn start_thread<S: Service + Send + 'static>(
        &mut self,
        name: String,
        bucket: usize,
        sockets: Vec<UdpSocket>,
        service: S,
    ) -> Result<ReadyCell, UdpServeError> {
        let thread = WorkerSettings {
            memory: self.plan.memory,
            ..WorkerSettings::new(name, self.plan.steering.cpus[bucket])
        };
        let sockets = sockets.into_iter().map(OwnedFd::from).collect();
        let engine = (self.engine.kind, self.plan.engine_settings());
        Ok(service::start(&mut self.crew, thread, engine, sockets, service)?)
    }

    /// The group of sockets, where a program chooses among several.
    fn steered(&self, opened: &Opened) -> Result<Option<SteeredGroup>, UdpServeError> {
        let Opened::Own(sockets) = opened else {
            return Ok(None);
        };
        if self.plan.model != Model::Exact || sockets.len() < 2 {
            return Ok(None);
        }
        let (families, steering) = (self.plan.families(), self.plan.steering.clone());
        let group = SteeredGroup::new(&sockets[0], sockets.len(), families, steering);
        let mut group = group.map_err(TableError::Duplicate)?;
        let current = Arc::clone(&self.steerer);
        group.on_move(move |moved| current.exchange(moved.steering));
        Ok(Some(group))
    }

    /// The steering in force.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        self.group
            .as_ref()
            .map_or(&self.plan.steering, SteeredGroup::steering)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes in what was sampled: samples are lost otherwise.
    fn collect_samples(&mut self) {
        self.flows.collect();
        for (worker, socket) in self.connected.1.try_iter() {
            self.drops.add(worker, socket);
        }
        self.drops.look();
    }

    fn bucket_served(
        &self,
        index: usize,
        (locality_samples, locality_right): (u64, u64),
        departed: Departed,
    ) -> BucketServed {
        let counters = &self.counters[index];
        let mailbox_full = self.mailbox_full.get(index).map_or(0, |full| full.get());
        let mut causes = vec![
            ("full_buffers", self.drops.of_worker(index)),
            ("mailbox_full", mailbox_full),
            ("queue_full", counters.queue_full.get()),
            ("refused_port", counters.refused_port.get()),
            ("refused_peer", counters.refused_peer.get()),
            ("truncated", counters.truncated.get()),
        ];
        let names = FailureCounts::default().by_cause();
        causes.extend(
            names
                .iter()
                .zip(&counters.send_failed)
                .map(|((cause, _), count)| (*cause, count.get())),
        );
        BucketServed {
            bucket: index as u16,
            cpu: self.plan.steering.cpus[index],
            seen: counters.seen.get(),
            seen_bytes: counters.seen_bytes.get(),
            answered: counters.answered.get(),
            dropped: by_cause(causes.into_iter()),
            steering_samples: counters.steering_samples.get(),
            steering_right: counters.steering_right.get(),
            locality_samples,
            locality_right,
            tx_samples: departed.samples,
            tx_on_cpu: departed.on_cpu,
            tx_on_queue: departed.on_queue,
            tx_right: departed.right,
            answered_unconnected: counters.answered_unconnected.get(),
            memory: (self.ready[index].get())
                .map(|ready| ready.buffers.told(self.plan.memory, self.plan.buffer_memory)),
        }
    }
}

impl Server for UdpServer {
    type Plan = UdpPlan;
    type Served = UdpServed;
    type Error = UdpServeError;
    const KIND: &'static str = "udp_server";

    fn start(plan: Self::Plan) -> Result<Self, UdpServeError> {
        plan.check()?;
        let opened = Opened::of(&plan)?;
        let (drops, address) = (opened.watch()?, opened.address()?);
        let (received, locality_unknown) = told(observe(&plan, address));
        let (sent, tx_locality_unknown) = told(observe_answers(&plan, address));
        let mut server = Self {
            engine: choose(plan.engine),
            steerer: Arc::new(Current::new(&plan.steering)),
            plan: Arc::new(plan),
            address,
            counters: Vec::new(),
            ready: Vec::new(),
            mailbox_full: Vec::new(),
            drops,
            connected: mpsc::channel(),
            counting: None,
            flows: Flows::new(Taps::default(), Vec::new()),
            locality_unknown,
            tx_locality_unknown,
            crew: Crew::new(),
            group: None,
        };
        server.group = server.steered(&opened)?;
        server.counting = server.plan.flows.then(|| Counting::new(server.plan.workers()));
        let sampled = server.start_threads(opened)?;
        server.flows = Flows::new(Taps { received, sent }, sampled);
        Ok(server)
    }

    fn served(&mut self) -> UdpServed {
        self.collect_samples();
        let workers = self.counters.len();
        let cpus = &self.plan.steering.cpus[..workers];
        let locality = self.flows.locality(cpus);
        let departed = self.flows.departed(cpus, self.plan.transmit_queues.unwrap_or(1));
        let shared = [("full_buffers", self.drops.shared())];
        UdpServed {
            schema: "corelane/served-udp/1".to_owned(),
            address: self.address,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            model: self.plan.model,
            steering: self.steering().clone(),
            answers: self.plan.answers,
            buckets: (locality.into_iter().zip(departed).enumerate())
                .map(|(index, (locality, departed))| self.bucket_served(index, locality, departed))
                .collect(),
            shared_dropped: by_cause(shared.into_iter()),
            locality_unknown: self.locality_unknown.clone(),
            tx_locality_unknown: self.tx_locality_unknown.clone(),
            flows: None,
            flows_uncounted: None,
        }
    }

    fn poll(&mut self) -> Result<(), UdpServeError> {
        self.collect_samples();
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.group.as_mut()
    }

    fn flows(&mut self) -> Option<FlowCounts> {
        let crew = &self.crew;
        Some(self.counting.as_mut()?.ask(|| crew.wake(), FLOWS_WITHIN))
    }

    fn stop(mut self) -> Result<UdpServed, UdpServeError> {
        self.crew.stop();
        self.crew.finish()?;
        let mut served = self.served();
        if let Some(counting) = &mut self.counting {
            let counts = counting.last();
            (served.flows, served.flows_uncounted) = (Some(counts.flows), Some(counts.uncounted));
        }
        Ok(served)
    }
}

/// The causes that took any.
fn by_cause<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| (cause.to_owned(), count))
        .collect()
}

/// The tap of what the device receives, or why there is none.
fn observe(plan: &UdpPlan, address: SocketAddr) -> Result<Observer, String> {
    let Some(device) = &plan.device else {
        return Err("no device was named to watch (--watch DEVICE)".to_owned());
    };
    tap(device, Direction::Received, address)
}

/// The tap of what the device sends, or why there is none.
fn observe_answers(plan: &UdpPlan, address: SocketAddr) -> Result<Observer, String> {
    match (&plan.device, plan.transmit_queues, plan.mode) {
        (_, _, Mode::Sink) => Err("a sink does not answer".to_owned()),
        (Some(device), Some(_), Mode::Echo) => tap(device, Direction::Sent, address),
        _ => Err("nobody asked for it: watching answers costs each of them a little (--answers)".to_owned()),
    }
}

fn tap(device: &str, direction: Direction, address: SocketAddr) -> Result<Observer, String> {
    let settings = ObserverSettings {
        device: device.to_owned(),
        direction,
        address,
        one_in: TAP_INTERVAL,
    };
    Observer::new(&settings).map_err(|error| error.to_string())
}

/// What there is, and why there is not.
fn told<T>(result: Result<T, String>) -> (Option<T>, Option<String>) {
    match result {
        Ok(there) => (Some(there), None),
        Err(why) => (None, Some(why)),
    }
}
