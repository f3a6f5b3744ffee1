//! Code shared by servers of datagrams and of connections: steering checks, the socket group, and the main loop of each
//! pinned thread.

use crate::server::ServeError;
use crate::shared::lock;
use corelane_rss::Steering;
use corelane_worker::crew::{Crew, Job, ReadyCell};
use corelane_worker::engine::{
    Engine, EngineCounters, EngineKind, EngineSettings, Event, Handler, Id, Ops, Waker,
};
use corelane_worker::{CachePadded, Time, WorkerSettings};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest wait of a thread between publications of its counters; bounds their age on an idle server.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Shortest time between two publications: many turns share the cost of one.
const PUBLISH_EVERY: Duration = Duration::from_millis(1);

/// The buckets of a steering document, which must have one CPU each.
pub(crate) fn buckets(steering: &Steering) -> Result<usize, ServeError> {
    let (buckets, cpus) = (steering.table.buckets(), steering.cpus.len());
    if cpus != buckets {
        return Err(ServeError::Cpus { buckets, cpus });
    }
    Ok(buckets)
}

/// The service of one thread's sockets: an event handler, and callbacks of the thread's main loop.
pub trait Service: Handler {
    /// Registers the sockets passed to it. Called once, on the service's thread.
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()>;

    /// Passes the handle that wakes the thread, which other threads may use. Called once, on the service's thread, before
    /// [`begin`](Self::begin).
    fn wakes_by(&mut self, _waker: Waker) {}

    /// The latest time for the next call of [`turned`](Self::turned).
    fn next_due(&self) -> Time {
        Time::NEVER
    }

    /// Called after each turn: handles expired deadlines.
    fn turned(&mut self, _ops: &mut Ops, _now: Time) {}

    /// Whether the loop ends; `stopping`: the server is stopping.
    fn is_done(&self, stopping: bool) -> bool {
        stopping
    }

    /// The loop has ended. Data queued on open connections is sent as far as the kernel accepts it.
    fn shutdown(&mut self, _ops: &mut Ops) {}
}

/// Looks at the events of a thread before its service handles them.
pub(crate) trait Watch {
    fn look(&mut self, ops: &Ops, id: Id, event: &Event<'_>);
}

impl Watch for () {
    fn look(&mut self, _ops: &Ops, _id: Id, _event: &Event<'_>) {}
}

/// The counters of a thread's engine: at most [`PUBLISH_EVERY`] old while it works, readable by any thread.
pub(crate) type Published = Arc<CachePadded<Mutex<EngineCounters>>>;

/// Starts a thread that passes `sockets` to `service` and runs it, watched by `watch`.
pub(crate) fn start<S: Service + Send + 'static>(
    crew: &mut Crew<()>,
    thread: WorkerSettings,
    engine: (EngineKind, EngineSettings),
    sockets: Vec<OwnedFd>,
    service: S,
    watch: impl Watch + Send + 'static,
) -> Result<(ReadyCell, Published), ServeError> {
    let (stop, published) = (crew.stop_flag(), Published::default());
    let counters = Arc::clone(&published);
    let ready = crew.start(thread, sockets, engine, move |sockets, _| ServiceLoop {
        service,
        watch,
        sockets,
        stop,
        published,
    })?;
    Ok((ready, counters))
}

struct ServiceLoop<S, W> {
    service: S,
    watch: W,
    sockets: Vec<OwnedFd>,
    stop: Arc<AtomicBool>,
    published: Published,
}

impl<S: Service, W: Watch> Handler for ServiceLoop<S, W> {
    #[inline]
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.watch.look(ops, id, &event);
        self.service.event(ops, now, id, event);
    }

    #[inline]
    fn upcoming(&mut self, bytes: &[u8]) {
        self.service.upcoming(bytes);
    }
}

impl<S: Service, W: Watch> Job for ServiceLoop<S, W> {
    type Outcome = ();

    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        self.service.wakes_by(engine.waker());
        let now = engine.now();
        let sockets = std::mem::take(&mut self.sockets);
        self.service.begin(engine.ops(), now, sockets)
    }

    fn run<E: Engine>(mut self, engine: &mut E, _start: Time) -> io::Result<()> {
        let mut now = engine.now();
        let (mut published, mut is_stale) = (now, false);
        while !self.service.is_done(self.stop.load(Ordering::Relaxed)) {
            let wait = if is_stale { PUBLISH_EVERY } else { LONGEST_WAIT };
            engine.turn(self.service.next_due().min(now + wait), &mut self)?;
            now = engine.now();
            self.service.turned(engine.ops(), now);
            is_stale = now.since(published) < PUBLISH_EVERY;
            if !is_stale {
                *lock(&self.published) = engine.ops().counters();
                published = now;
            }
        }
        self.service.shutdown(engine.ops());
        // Flushes queued data; received events are discarded.
        engine.turn(now, &mut |_: &mut Ops, _: Time, _: Id, _: Event<'_>| {})?;
        *lock(&self.published) = engine.finish();
        Ok(())
    }
}
