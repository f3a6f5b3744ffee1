//! The running UDP server: starts the threads of its model, tells their counts, stops them.

use super::bucket::{BucketCounters, BucketHandler};
use super::flows::Flows;
use super::mailbox;
use super::plan::{UdpPlan, UdpServeError};
use super::served::{BucketServed, UdpServed};
use super::sockets::{Opened, SocketDrops};
use super::worker::{Control, Farmed, Farming, Post, Reading, Ready, Serving};
use corelane_rss::{Bucket, Steerer};
use corelane_worker::engine::{Chosen, EngineBody, FailureCounts, Waker, choose, run_engine};
use corelane_worker::locality::{Observer, ObserverSettings};
use corelane_worker::memory::Buffers;
use corelane_worker::{CachePadded, Counter, Worker, WorkerSettings, spawn};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// Sampled flows in flight from a worker to the control thread.
const SAMPLE_RING: usize = 1024;

/// The tap takes one datagram in so many, at random: a trial of 200 ms on a busy machine still gives some hundred samples.
const TAP_INTERVAL: u32 = 64;

/// A UDP server that is running. Dropping it stops it.
pub struct UdpServer {
    plan: Arc<UdpPlan>,
    steerer: Arc<Steerer>,
    address: SocketAddr,
    engine: Chosen,
    /// One block a worker.
    counters: Vec<Arc<CachePadded<BucketCounters>>>,
    /// Where each worker's memory is.
    buffers: Vec<Buffers>,
    /// What did not fit each worker's mailbox; empty where there are none.
    mailbox_full: Vec<Arc<CachePadded<Counter>>>,
    drops: SocketDrops,
    flows: Flows,
    locality_unknown: Option<String>,
    stop: Arc<AtomicBool>,
    threads: Vec<Running>,
}

/// A thread of the server.
struct Running {
    name: String,
    waker: Waker,
    handle: Worker<io::Result<()>>,
}

impl UdpServer {
    /// Opens the sockets, pins the threads, and returns when every one of them is ready.
    ///
    /// # Errors
    /// See [`UdpServeError`]; nothing is left running then.
    pub fn start(plan: UdpPlan) -> Result<Self, UdpServeError> {
        let buckets = plan.steering.table.buckets();
        if plan.steering.cpus.len() != buckets {
            return Err(UdpServeError::Cpus {
                buckets,
                cpus: plan.steering.cpus.len(),
            });
        }
        let opened = Opened::of(&plan)?;
        let (drops, address) = (opened.watch()?, opened.address()?);
        let (observer, locality_unknown) = observe(&plan, address);
        let mut server = Self {
            engine: choose(plan.engine),
            steerer: Arc::new(plan.steering.steerer()),
            plan: Arc::new(plan),
            address,
            counters: Vec::new(),
            buffers: Vec::new(),
            mailbox_full: Vec::new(),
            drops,
            flows: Flows::new(None, Vec::new()),
            locality_unknown,
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let sampled = server.start_threads(opened)?;
        server.flows = Flows::new(observer, sampled);
        Ok(server)
    }

    fn start_threads(&mut self, opened: Opened) -> Result<Vec<rtrb::Consumer<SocketAddr>>, UdpServeError> {
        let mut sampled = Vec::new();
        match opened {
            Opened::Own(sockets) | Opened::Shared(sockets) => {
                for (index, socket) in sockets.into_iter().enumerate() {
                    let (handler, samples) = self.handler(index);
                    sampled.push(samples);
                    self.start_worker(index, |control| Serving {
                        socket,
                        handler,
                        control,
                    })?;
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
                let cpu = self.plan.steering.cpus[0];
                self.start_thread("reader".to_owned(), cpu, |control| Reading {
                    socket: reader,
                    farming,
                    control,
                })?;
                // The reader ends first: its workers end when it has, and their mailboxes are empty.
                self.threads.rotate_right(1);
            }
        }
        Ok(sampled)
    }

    /// The handler of worker `index`, and where what it samples comes out.
    fn handler(&mut self, index: usize) -> (BucketHandler, rtrb::Consumer<SocketAddr>) {
        let (producer, consumer) = rtrb::RingBuffer::new(SAMPLE_RING);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        self.counters.push(Arc::clone(&counters));
        let handler = BucketHandler::new(
            Bucket::new(index as u16),
            self.address,
            Arc::clone(&self.plan),
            Arc::clone(&self.steerer),
            counters,
            producer,
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
        let waker = self.start_worker(index, |control| Farmed {
            socket,
            inbox,
            handler,
            control,
        })?;
        let full = Arc::<CachePadded<Counter>>::default();
        self.mailbox_full.push(Arc::clone(&full));
        Ok(Post { outbox, waker, full })
    }

    fn start_worker<B: EngineBody<io::Result<()>> + Send + 'static>(
        &mut self,
        index: usize,
        body: impl FnOnce(Control) -> B,
    ) -> Result<Waker, UdpServeError> {
        let ready = self.start_thread(format!("bucket {index}"), self.plan.steering.cpus[index], body)?;
        self.buffers.push(ready.buffers);
        Ok(ready.waker)
    }

    /// Starts a pinned thread and waits until it is ready.
    fn start_thread<B: EngineBody<io::Result<()>> + Send + 'static>(
        &mut self,
        name: String,
        cpu: u32,
        body: impl FnOnce(Control) -> B,
    ) -> Result<Ready, UdpServeError> {
        let (ready, is_ready) = mpsc::channel();
        let body = body(Control {
            stop: Arc::clone(&self.stop),
            ready,
        });
        let (kind, settings) = (self.engine.kind, self.plan.engine_settings());
        let settings_of_thread = WorkerSettings {
            name: name.clone(),
            cpu,
            memory: self.plan.memory,
            own_descriptors: false,
        };
        let handle = spawn(settings_of_thread, move || run_engine(kind, &settings, body)?)?;
        let Ok(ready) = is_ready.recv() else {
            // The thread ended before it was ready: its result says why.
            let ended_early = || io::Error::other("the thread ended early");
            let error = joined(handle).err().unwrap_or_else(ended_early);
            return Err(UdpServeError::Worker { thread: name, error });
        };
        let waker = ready.waker.clone();
        self.threads.push(Running { name, waker, handle });
        Ok(ready)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes in what was sampled; call it a few times a second, or samples are lost.
    pub fn collect_samples(&mut self) {
        self.flows.collect();
        self.drops.look();
    }

    /// The counts so far.
    #[must_use]
    pub fn served(&mut self) -> UdpServed {
        self.collect_samples();
        let workers = self.counters.len();
        let locality = self.flows.locality(&self.plan.steering.cpus[..workers]);
        let shared = [("full_buffers", self.drops.shared())];
        UdpServed {
            schema: "corelane/served-udp/1".to_owned(),
            address: self.address,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            model: self.plan.model,
            steering: self.plan.steering.clone(),
            buckets: (locality.into_iter().enumerate())
                .map(|(index, locality)| self.bucket_served(index, locality))
                .collect(),
            shared_dropped: by_cause(shared.into_iter()),
            locality_unknown: self.locality_unknown.clone(),
        }
    }

    fn bucket_served(&self, index: usize, (locality_samples, locality_right): (u64, u64)) -> BucketServed {
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
            memory: Some(self.buffers[index].told(self.plan.memory, self.plan.buffer_memory)),
        }
    }

    /// Stops the threads and tells the final counts.
    ///
    /// # Errors
    /// What ended a thread before it was told to stop.
    pub fn stop(mut self) -> Result<UdpServed, UdpServeError> {
        self.stop_threads()?;
        Ok(self.served())
    }

    fn stop_threads(&mut self) -> Result<(), UdpServeError> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.waker.wake();
        }
        let mut outcome = Ok(());
        for Running { name, handle, .. } in self.threads.drain(..) {
            if let Err(error) = joined(handle) {
                outcome = Err(UdpServeError::Worker { thread: name, error });
            }
        }
        outcome
    }
}

/// A worker's result; its panic goes on here.
fn joined<R>(worker: Worker<R>) -> R {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for UdpServer {
    fn drop(&mut self) {
        // Nobody is left to tell: `stop` is for those who want to know.
        let _ = self.stop_threads();
    }
}

/// The causes that took any.
fn by_cause<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| (cause.to_owned(), count))
        .collect()
}

/// The device tap, or why there is none.
fn observe(plan: &UdpPlan, address: SocketAddr) -> (Option<Observer>, Option<String>) {
    let Some(device) = &plan.device else {
        return (
            None,
            Some("no device was named to watch (--watch DEVICE)".to_owned()),
        );
    };
    let settings = ObserverSettings {
        device: device.clone(),
        destination: address,
        one_in: TAP_INTERVAL,
    };
    match Observer::new(&settings) {
        Ok(observer) => (Some(observer), None),
        Err(error) => (None, Some(error.to_string())),
    }
}
