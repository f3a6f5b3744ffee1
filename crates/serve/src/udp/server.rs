//! The running UDP server: starts the threads of its model, sums their counters, stops them.

use super::answer::{Answering, Connected};
use super::bucket::BucketHandler;
use super::cause::DropCause;
use super::common::Common;
use super::counters::BucketCounters;
use super::describe::{Describing, SharedCounts};
use super::flows::{Departed, Flows, Taps};
use super::loops::Repeats;
use super::mailbox;
use super::plan::UdpPlan;
use super::served::{BucketServed, FlowCounts, UdpServed};
use super::sockets::{Opened, SocketDrops};
use super::worker::{Farmed, Farming, Post};
use crate::live_steering::LiveSteering;
use crate::loads::Sampler;
use crate::server::{ServeError, Server};
use crate::service::{self, Published, Service};
use crate::shared::{lock, occurred};
use crate::udp::{Mode, Model};
use corelane_link::MarkedQueues;
use corelane_rss::{Bucket, Steering};
use corelane_worker::crew::{Crew, ReadyCell};
use corelane_worker::engine::{Chosen, choose};
use corelane_worker::group::{self, Transport};
use corelane_worker::locality::{Direction, Observer, ObserverSettings};
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

/// Average number of datagrams per tapped datagram, chosen at random: a 200 ms trial under load still yields some
/// hundred samples.
const TAP_INTERVAL: u32 = 64;

/// A running UDP server. Dropping it stops it.
pub struct UdpServer {
    common: Arc<Common>,
    engine: Chosen,
    /// One block per worker.
    counters: Vec<Arc<CachePadded<BucketCounters>>>,
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
    fn start_threads(&mut self, opened: Opened) -> Result<(), ServeError> {
        let by_bucket: Vec<Vec<UdpSocket>> = (0..opened.workers.len())
            .map(|_| opened.for_answers(&self.common.plan))
            .collect::<Result<_, _>>()?;
        let mut posts = Vec::new();
        for (index, (socket, by_bucket)) in opened.workers.into_iter().zip(by_bucket).enumerate() {
            let handler = self.handler(index);
            let sockets = [socket].into_iter().chain(by_bucket).collect();
            let name = format!("bucket {index}");
            let thread = if self.common.plan.model == Model::Farm {
                let (outbox, inbox) = mailbox::new();
                let farmed = Farmed {
                    inbox,
                    handler,
                    socket: None,
                };
                let worker = self.start_thread(name, index, sockets, farmed)?;
                let full = Arc::<CachePadded<Counter>>::default();
                self.mailbox_full.push(Arc::clone(&full));
                posts.push(Post {
                    outbox,
                    worker: Arc::clone(&worker.0),
                    full,
                    posted: false,
                });
                worker
            } else {
                self.start_thread(name, index, sockets, handler)?
            };
            self.threads.push(thread);
        }
        if let (Model::Farm, Some(reader)) = (self.common.plan.model, opened.shared) {
            let farming = Farming {
                common: Arc::clone(&self.common),
                posts,
            };
            self.start_thread("reader".to_owned(), 0, vec![reader], farming)?;
        }
        self.crew.begin_when_ready()?;
        Ok(())
    }

    /// The handler of worker `index`.
    fn handler(&mut self, index: usize) -> BucketHandler {
        let (producer, consumer) = rtrb::RingBuffer::new(SAMPLE_RING);
        self.flows.seen_by_workers.push(consumer);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        self.counters.push(Arc::clone(&counters));
        if self.common.plan.flows {
            self.counted.push(SharedCounts::default());
        }
        let (plan, common) = (&self.common.plan, || Arc::clone(&self.common));
        let describes = plan.metadata || plan.flows;
        BucketHandler {
            bucket: (plan.model != Model::Single).then(|| Bucket::new(index as u16)),
            common: common(),
            counters: Arc::clone(&counters),
            sampled_flows: producer,
            answering: Answering {
                common: common(),
                counters,
                worker: index,
                opened: self.connected.0.clone(),
                own: None,
                by_bucket: Vec::new(),
                by_flow: HashMap::new(),
            },
            sampler: self.steering.meter().map(Sampler::new),
            describing: describes.then(|| Describing::new(common(), self.counted.get(index).cloned())),
            repeats: Repeats::new(),
            until_sample: 1,
            samples: 0,
        }
    }

    /// Starts a thread on the CPU of a bucket.
    fn start_thread<S: Service + Send + 'static>(
        &mut self,
        name: String,
        bucket: usize,
        sockets: Vec<UdpSocket>,
        service: S,
    ) -> Result<(ReadyCell, Published), ServeError> {
        let thread = WorkerSettings {
            memory: self.common.plan.memory,
            ..WorkerSettings::new(name, self.common.plan.steered.steering.cpus[bucket])
        };
        let sockets = sockets.into_iter().map(OwnedFd::from).collect();
        let engine = (self.engine.kind, self.common.plan.settings.clone());
        Ok(service::start(&mut self.crew, thread, engine, sockets, service)?)
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
        let (counters, (ready, engine)) = (&self.counters[index], &self.threads[index]);
        let engine = *lock(engine);
        let failed = engine
            .send_failed
            .by_cause()
            .map(|(cause, count)| (cause.into(), count));
        let mailbox_full = self.mailbox_full.get(index).map_or(0, |full| full.get());
        let causes = [
            (DropCause::FullBuffers, self.drops.of(Some(index))),
            (DropCause::MailboxFull, mailbox_full),
            (DropCause::QueueFull, counters.queue_full.get()),
            (DropCause::RefusedPort, counters.refused_port.get()),
            (DropCause::RefusedPeer, counters.refused_peer.get()),
            (DropCause::RefusedBroadcast, counters.refused_broadcast.get()),
            (DropCause::RefusedEcho, counters.refused_echo.get()),
            (DropCause::RefusedLoop, counters.refused_loop.get()),
            (DropCause::Truncated, counters.truncated.get()),
            (DropCause::NoDestination, counters.no_destination.get()),
        ];
        BucketServed {
            bucket: index as u16,
            cpu: self.common.plan.steered.steering.cpus[index],
            seen: counters.seen.get(),
            seen_bytes: counters.seen_bytes.get(),
            answered: engine.sent,
            dropped: occurred(failed.into_iter().chain(causes)),
            steering_samples: counters.steering_samples.get(),
            steering_right: counters.steering_right.get(),
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
            schema: UdpServed::SCHEMA.to_owned(),
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
            shared_dropped: occurred([(DropCause::FullBuffers, self.drops.of(None))]),
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
    type Error = ServeError;
    const KIND: &'static str = "udp_server";

    fn start(mut plan: UdpPlan) -> Result<Self, ServeError> {
        plan.check()?;
        plan.socket.address = group::canonical(plan.socket.address);
        // A socket with an address of its own receives nothing else, no broadcast and no multicast.
        plan.settings.destinations = plan.socket.address.ip().is_unspecified();
        let opened = Opened::of(&plan)?;
        let marked = opened.mark(&plan)?;
        let (drops, address) = (opened.watch()?, opened.address()?);
        let common = Common::new(plan, address);
        let plan = &common.plan;
        let group = match plan.model {
            Model::Exact => {
                service::steered(&opened.workers, plan.socket.families(), &plan.steered.steering)?
            }
            _ => None,
        };
        let changed = Arc::clone(&common);
        let changed = move |steerer| changed.steerer.store(steerer);
        let steering = LiveSteering::new(&plan.steered.steering, plan.steered.rebalance, group, changed)?;
        let received = observe(plan, address);
        let sent = observe_answers(plan, address);
        let mut server = Self {
            engine: choose(plan.engine),
            common,
            counters: Vec::new(),
            threads: Vec::new(),
            mailbox_full: Vec::new(),
            drops,
            connected: mpsc::channel(),
            counted: Vec::new(),
            locality_unknown: received.as_ref().err().cloned(),
            tx_locality_unknown: sent.as_ref().err().cloned(),
            flows: Flows::new(received.unwrap_or_default(), sent.unwrap_or_default()),
            crew: Crew::new(),
            steering,
            _marked: marked,
        };
        server.start_threads(opened)?;
        Ok(server)
    }

    fn served(&mut self) -> UdpServed {
        self.document(Some(&PageLocations::read()))
    }

    fn counts(&mut self) -> UdpServed {
        self.document(None)
    }

    fn poll(&mut self) -> Result<(), ServeError> {
        self.collect_samples();
        self.steering.look();
        Ok(())
    }

    fn rebalancing(&mut self) -> Option<&mut Rebalancing> {
        self.steering.rebalancing()
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.steering.group.as_mut()
    }

    fn flows(&mut self) -> Option<FlowCounts> {
        self.common.plan.flows.then(|| FlowCounts::of(&self.counted))
    }

    fn stop(mut self) -> Result<UdpServed, ServeError> {
        self.crew.stop();
        self.crew.finish()?;
        let (flows, uncounted) = self
            .flows()
            .map(|counts| (counts.flows, counts.uncounted))
            .unzip();
        Ok(UdpServed {
            flows,
            flows_uncounted: uncounted,
            ..self.served()
        })
    }
}

/// The taps of received packets, or why there are none.
fn observe(plan: &UdpPlan, address: SocketAddr) -> Result<Taps, String> {
    let Some(device) = &plan.device else {
        return Err("no device was named to watch (--watch DEVICE)".to_owned());
    };
    taps(plan, device, Direction::Received, address)
}

/// The taps of sent packets, or why there are none.
fn observe_answers(plan: &UdpPlan, address: SocketAddr) -> Result<Taps, String> {
    match (&plan.device, plan.transmit_queues, plan.mode) {
        (_, _, Mode::Sink) => Err("a sink does not answer".to_owned()),
        (Some(device), Some(_), Mode::Echo) => taps(plan, device, Direction::Sent, address),
        _ => Err("not measured; add --answers".to_owned()),
    }
}

fn taps(plan: &UdpPlan, device: &str, direction: Direction, address: SocketAddr) -> Result<Taps, String> {
    let settings = ObserverSettings {
        device: Some(device.to_owned()),
        transport: Transport::Udp,
        direction,
        address,
        one_in: TAP_INTERVAL,
    };
    Observer::of_group(&settings, plan.socket.families()).map_err(|error| error.to_string())
}
