//! The threads of a TCP server, one a bucket: listeners and what serves each come in, pinned threads that serve come out.

use corelane_worker::engine::{
    Engine, EngineBody, EngineKind, EngineSettings, Event, Handler, Id, Ops, Waker, run_engine,
};
use corelane_worker::{SpawnError, Time, Worker, WorkerSettings, spawn_with};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use thiserror::Error;

/// The longest that a worker waits before it publishes its counts again: what an idle server tells is no older.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// What serves the connections of one bucket.
pub(crate) trait Tenant: Handler {
    /// The listener was registered. Called once, on the worker's thread.
    fn begin(&mut self, listener: Id, now: Time) -> io::Result<()>;

    /// When [`turned`](Self::turned) is wanted at the latest.
    fn next_due(&self) -> Time;

    /// A turn has ended: deadlines that have passed are acted on.
    fn turned(&mut self, ops: &mut Ops, now: Time);

    /// Counts are published, what the engine counts among them.
    fn publish(&self, ops: &Ops);

    /// The server ends; connections are still open, and what is queued on them now is sent as far as the kernel takes it.
    fn end(&mut self, _ops: &mut Ops) {}
}

/// How the threads run.
#[derive(Clone, Debug)]
pub(crate) struct WorkersSettings {
    pub(crate) kind: EngineKind,
    pub(crate) engine: EngineSettings,
    /// One a bucket, in order.
    pub(crate) cpus: Vec<u32>,
    /// Each thread counts its descriptors apart.
    pub(crate) own_descriptors: bool,
}

/// Why the threads could not start or go on.
#[derive(Debug, Error)]
pub enum WorkersError {
    /// A worker could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// An engine failed.
    #[error("{thread}: {error}")]
    Worker {
        /// Which thread, as `bucket 3`.
        thread: String,
        /// What the system said.
        error: io::Error,
    },
}

/// Running threads. Dropping them stops them.
pub(crate) struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<Running>,
}

struct Running {
    name: String,
    waker: Waker,
    handle: Worker<io::Result<()>>,
}

impl Workers {
    /// Starts one thread a listener, and returns when every one of them serves.
    pub(crate) fn start<T: Tenant + Send + 'static>(
        settings: &WorkersSettings,
        listeners: Vec<TcpListener>,
        tenant: impl Fn(usize) -> T,
    ) -> Result<Self, WorkersError> {
        let mut workers = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for (bucket, listener) in listeners.into_iter().enumerate() {
            workers.start_one(settings, bucket, listener, tenant(bucket))?;
        }
        Ok(workers)
    }

    fn start_one<T: Tenant + Send + 'static>(
        &mut self,
        settings: &WorkersSettings,
        bucket: usize,
        listener: TcpListener,
        tenant: T,
    ) -> Result<(), WorkersError> {
        let name = format!("bucket {bucket}");
        let (ready, is_ready) = mpsc::channel();
        let stop = Arc::clone(&self.stop);
        let (kind, engine) = (settings.kind, settings.engine.clone());
        let of_thread = WorkerSettings {
            name: name.clone(),
            cpu: settings.cpus[bucket],
            memory: corelane_host::memory::MemoryPolicy::default(),
            own_descriptors: settings.own_descriptors,
        };
        let handle = spawn_with(of_thread, vec![OwnedFd::from(listener)], move |handed| {
            let listener = handed.into_iter().next().map(TcpListener::from);
            let body = Serving {
                listener: listener.expect("one descriptor was handed over"),
                tenant,
                stop,
                ready,
            };
            run_engine(kind, &engine, body)?
        })?;
        let Ok(waker) = is_ready.recv() else {
            // The thread ended before it was ready: its result says why.
            let ended_early = || io::Error::other("the thread ended early");
            let error = joined(handle).err().unwrap_or_else(ended_early);
            return Err(WorkersError::Worker { thread: name, error });
        };
        self.threads.push(Running { name, waker, handle });
        Ok(())
    }

    /// Stops the threads; their tenants have published by then.
    pub(crate) fn stop(&mut self) -> Result<(), WorkersError> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.waker.wake();
        }
        let mut outcome = Ok(());
        for Running { name, handle, .. } in self.threads.drain(..) {
            if let Err(error) = joined(handle) {
                outcome = Err(WorkersError::Worker { thread: name, error });
            }
        }
        outcome
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Nobody is left to tell: `stop` is for those who want to know.
        let _ = self.stop();
    }
}

struct Serving<T> {
    listener: TcpListener,
    tenant: T,
    stop: Arc<AtomicBool>,
    ready: mpsc::Sender<Waker>,
}

impl<T: Tenant> EngineBody<io::Result<()>> for Serving<T> {
    fn run<E: Engine>(mut self, mut engine: E) -> io::Result<()> {
        let listener = engine.ops().listen(self.listener)?;
        self.tenant.begin(listener, engine.now())?;
        // The starter may have given up already; then `stop` is set as well.
        let _ = self.ready.send(engine.waker());
        let mut now = engine.now();
        while !self.stop.load(Ordering::Relaxed) {
            let until = self.tenant.next_due().min(now + LONGEST_WAIT);
            engine.turn(until, &mut self.tenant)?;
            now = engine.now();
            self.tenant.turned(engine.ops(), now);
            self.tenant.publish(engine.ops());
        }
        self.tenant.end(engine.ops());
        // Sends what that has queued; what arrives meanwhile is nobody's.
        engine.turn(now, &mut |_: &mut Ops, _: Time, _: Id, _: Event<'_>| {})?;
        self.tenant.publish(engine.ops());
        Ok(())
    }
}

/// A worker's result; its panic goes on here.
fn joined<R>(worker: Worker<R>) -> R {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
