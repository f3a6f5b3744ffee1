//! The running UDP server: starts one worker a bucket, tells their counts, stops them.

use super::bucket::{BucketCounters, BucketHandler};
use super::flows::Flows;
use super::plan::{UdpPlan, UdpServeError};
use super::served::{BucketServed, UdpServed};
use corelane_report::scale::Model;
use corelane_rss::{Bucket, steer};
use corelane_worker::engine::{
    Chosen, DatagramOptions, Engine, EngineBody, FailureCounts, Waker, choose, run_engine,
};
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::locality::{Observer, ObserverSettings};
use corelane_worker::memory::Buffers;
use corelane_worker::{CachePadded, Worker, WorkerSettings, spawn};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The longest that a worker waits before it publishes its counts again: what an idle server tells is no older.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Sampled flows in flight from a worker to the control thread.
const SAMPLE_RING: usize = 1024;

/// The tap takes one datagram in so many. At a million a second that is 4,000 samples, which cost under a percent.
const TAP_INTERVAL: u32 = 256;

/// A UDP server that is running. Dropping it stops it.
pub struct UdpServer {
    plan: Arc<UdpPlan>,
    address: SocketAddr,
    engine: Chosen,
    counters: Vec<Arc<CachePadded<BucketCounters>>>,
    sockets: Vec<SocketDrops>,
    flows: Flows,
    locality_unknown: Option<String>,
    stop: Arc<AtomicBool>,
    buffers: Vec<Buffers>,
    workers: Vec<(Waker, Worker<io::Result<()>>)>,
}

impl UdpServer {
    /// Opens the group, pins the workers, and returns when every worker is ready to receive.
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
        let sockets = open_group(&plan, buckets)?;
        let watched = sockets.iter().map(SocketDrops::watch).collect::<io::Result<_>>();
        let watched = watched.map_err(|error| UdpServeError::Worker { bucket: 0, error })?;
        let address = sockets[0]
            .local_addr()
            .map_err(|error| UdpServeError::Worker { bucket: 0, error })?;
        let (observer, locality_unknown) = observe(&plan, address);
        let mut server = Self {
            engine: choose(plan.engine),
            plan: Arc::new(plan),
            address,
            counters: Vec::new(),
            sockets: watched,
            flows: Flows::new(None, Vec::new()),
            locality_unknown,
            stop: Arc::default(),
            buffers: Vec::new(),
            workers: Vec::new(),
        };
        let sampled = server.start_workers(sockets)?;
        server.flows = Flows::new(observer, sampled);
        Ok(server)
    }

    fn start_workers(
        &mut self,
        sockets: Vec<UdpSocket>,
    ) -> Result<Vec<rtrb::Consumer<SocketAddr>>, UdpServeError> {
        let steerer = Arc::new(self.plan.steering.steerer());
        let mut sampled = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            let (producer, consumer) = rtrb::RingBuffer::new(SAMPLE_RING);
            let counters = Arc::<CachePadded<BucketCounters>>::default();
            let bucket = Bucket::new(index as u16);
            let handler = BucketHandler::new(
                bucket,
                self.address,
                Arc::clone(&self.plan),
                Arc::clone(&steerer),
                Arc::clone(&counters),
                producer,
            );
            self.counters.push(counters);
            sampled.push(consumer);
            let (ready, worker) = self.start_worker(index, socket, handler)?;
            self.buffers.push(ready.buffers);
            self.workers.push((ready.waker, worker));
        }
        Ok(sampled)
    }

    fn start_worker(
        &self,
        index: usize,
        socket: UdpSocket,
        handler: BucketHandler,
    ) -> Result<(Ready, Worker<io::Result<()>>), UdpServeError> {
        let (ready, is_ready) = mpsc::channel();
        let body = Serving {
            socket,
            handler,
            stop: Arc::clone(&self.stop),
            ready,
        };
        let (kind, settings) = (self.engine.kind, self.plan.engine_settings());
        let cpu = self.plan.steering.cpus[index];
        let settings_of_thread = WorkerSettings {
            name: format!("bucket {index}"),
            cpu,
            memory: self.plan.memory,
            own_descriptors: false,
        };
        let worker = spawn(settings_of_thread, move || run_engine(kind, &settings, body)?)?;
        match is_ready.recv() {
            Ok(ready) => Ok((ready, worker)),
            // The worker ended before it was ready: its result says why.
            Err(_) => {
                let error = joined(worker)
                    .err()
                    .unwrap_or_else(|| io::Error::other("the worker ended early"));
                Err(UdpServeError::Worker { bucket: index, error })
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes in what was sampled; call it a few times a second, or samples are lost.
    pub fn collect_samples(&mut self) {
        self.flows.collect();
        for socket in &mut self.sockets {
            socket.look();
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn served(&mut self) -> UdpServed {
        self.collect_samples();
        UdpServed {
            schema: "corelane/served-udp/1".to_owned(),
            address: self.address,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            steering: self.plan.steering.clone(),
            buckets: (0..self.counters.len())
                .map(|index| self.bucket_served(index))
                .collect(),
            locality_unknown: self.locality_unknown.clone(),
        }
    }

    fn bucket_served(&self, index: usize) -> BucketServed {
        let counters = &self.counters[index];
        let (bucket, cpu) = (index as u16, self.plan.steering.cpus[index]);
        let (locality_samples, locality_right) = self.flows.locality(bucket, cpu);
        let mut causes = vec![
            ("full_buffers", self.sockets[index].dropped),
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
        let dropped: BTreeMap<_, _> = causes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| (cause.to_owned(), count))
            .collect();
        BucketServed {
            bucket,
            cpu,
            seen: counters.seen.get(),
            seen_bytes: counters.seen_bytes.get(),
            answered: counters.answered.get(),
            dropped,
            steering_samples: counters.steering_samples.get(),
            steering_right: counters.steering_right.get(),
            locality_samples,
            locality_right,
            memory: Some(self.buffers[index].told(self.plan.memory, self.plan.buffer_memory)),
        }
    }

    /// Stops the workers and tells the final counts.
    ///
    /// # Errors
    /// What ended a worker before it was told to stop.
    pub fn stop(mut self) -> Result<UdpServed, UdpServeError> {
        self.stop_workers()?;
        Ok(self.served())
    }

    fn stop_workers(&mut self) -> Result<(), UdpServeError> {
        self.stop.store(true, Ordering::Relaxed);
        for (waker, _) in &self.workers {
            waker.wake();
        }
        let mut outcome = Ok(());
        for (bucket, (_, worker)) in self.workers.drain(..).enumerate() {
            if let Err(error) = joined(worker) {
                outcome = Err(UdpServeError::Worker { bucket, error });
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
        let _ = self.stop_workers();
    }
}

/// What one socket of the group dropped before its worker saw it.
struct SocketDrops {
    socket: UdpSocket,
    last: u32,
    dropped: u64,
}

impl SocketDrops {
    fn watch(socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self {
            socket: socket.try_clone()?,
            last: 0,
            dropped: 0,
        })
    }

    /// Adds what the kernel's count, which wraps, has grown by.
    fn look(&mut self) {
        // A kernel that does not tell leaves the count where it is.
        if let Ok(now) = group::dropped(&self.socket) {
            self.dropped += u64::from(now.wrapping_sub(self.last));
            self.last = now;
        }
    }
}

/// One socket a bucket, in bucket order, with the steering program of the model.
fn open_group(plan: &UdpPlan, buckets: usize) -> Result<Vec<UdpSocket>, UdpServeError> {
    let families = if plan.address.is_ipv4() {
        steer::Families::V4
    } else {
        steer::Families::V6
    };
    let program = match plan.model {
        Model::Exact => Some(steer::program(&plan.steering, families)?),
        Model::Reuseport => None,
    };
    let settings = GroupSettings {
        receive_buffer: plan.receive_buffer_bytes,
        gro: plan.gro,
        ..GroupSettings::default()
    };
    Ok(group::udp(plan.address, buckets, program.as_ref(), &settings)?)
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

/// What a worker thread runs once it is pinned and has its engine.
struct Serving {
    socket: UdpSocket,
    handler: BucketHandler,
    stop: Arc<AtomicBool>,
    ready: mpsc::Sender<Ready>,
}

/// What a worker hands out once it has its engine.
struct Ready {
    waker: Waker,
    buffers: Buffers,
}

impl EngineBody<io::Result<()>> for Serving {
    fn run<E: Engine>(mut self, mut engine: E) -> io::Result<()> {
        engine.ops().datagrams(self.socket, DatagramOptions::default())?;
        // The starter may have given up already; then `stop` is set as well.
        let _ = self.ready.send(Ready {
            waker: engine.waker(),
            buffers: engine.buffers(),
        });
        while !self.stop.load(Ordering::Relaxed) {
            engine.turn(engine.now() + LONGEST_WAIT, &mut self.handler)?;
            self.handler.publish(&engine.ops().counters());
        }
        Ok(())
    }
}
