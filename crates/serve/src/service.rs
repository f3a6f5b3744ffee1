//! What servers of datagrams and of connections share: the check of their steering, the group that their sockets are, and
//! the one loop that each of their pinned threads runs.

use crate::server::ServeError;
use corelane_rss::Steering;
use corelane_rss::steer::Families;
use corelane_worker::crew::{Crew, CrewError, Job, ReadyCell};
use corelane_worker::engine::{Engine, EngineKind, EngineSettings, Event, Handler, Id, Ops};
use corelane_worker::steered::SteeredGroup;
use corelane_worker::{Time, WorkerSettings};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest that a thread waits before it publishes its counts again: those of an idle server are no older.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The buckets of a steering document, each of which has a CPU.
pub(crate) fn buckets(steering: &Steering) -> Result<usize, ServeError> {
    let (buckets, cpus) = (steering.table.buckets(), steering.cpus.len());
    if cpus != buckets {
        return Err(ServeError::Cpus { buckets, cpus });
    }
    Ok(buckets)
}

/// The packets that reach sockets on this address.
pub(crate) fn families(address: SocketAddr) -> Families {
    match address {
        SocketAddr::V4(_) => Families::V4,
        SocketAddr::V6(_) => Families::V6,
    }
}

/// The group that these steered sockets are; none where there is one socket, and nothing to choose.
pub(crate) fn steered(
    sockets: &[impl AsFd],
    address: SocketAddr,
    steering: &Steering,
) -> Result<Option<SteeredGroup>, ServeError> {
    let [member, _, ..] = sockets else {
        return Ok(None);
    };
    let group = SteeredGroup::new(member, sockets.len(), families(address), steering.clone());
    group.map(Some).map_err(|error| ServeError::Socket {
        what: "duplicate a socket of the group",
        error,
    })
}

/// What serves the sockets of one thread: a handler of events, and what the thread's loop calls between turns.
pub trait Service: Handler {
    /// Registers the sockets that were handed over. Called once, on the service's thread.
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()>;

    /// When [`turned`](Self::turned) is to be called at the latest.
    fn next_due(&self) -> Time {
        Time::NEVER
    }

    /// A turn has ended: acts on deadlines that have passed.
    fn turned(&mut self, _ops: &mut Ops, _now: Time) {}

    /// Publishes counts, those of the engine among them.
    fn publish(&mut self, _ops: &Ops) {}

    /// Whether the loop ends; `stopping` when the server is to stop.
    fn is_done(&self, stopping: bool) -> bool {
        stopping
    }

    /// The loop has ended. What is queued on open connections now is sent as far as the kernel takes it.
    fn shutdown(&mut self, _ops: &mut Ops) {}
}

/// Starts a thread that hands `sockets` to `service` and runs it.
pub(crate) fn start<S: Service + Send + 'static>(
    crew: &mut Crew<()>,
    thread: WorkerSettings,
    engine: (EngineKind, EngineSettings),
    sockets: Vec<OwnedFd>,
    service: S,
) -> Result<ReadyCell, CrewError> {
    let stop = crew.stop_flag();
    crew.start(thread, sockets, engine, move |sockets, _| ServiceLoop {
        service,
        sockets,
        stop,
    })
}

struct ServiceLoop<S> {
    service: S,
    sockets: Vec<OwnedFd>,
    stop: Arc<AtomicBool>,
}

impl<S: Service> Handler for ServiceLoop<S> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.service.event(ops, now, id, event);
    }
}

impl<S: Service> Job for ServiceLoop<S> {
    type Outcome = ();

    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let now = engine.now();
        let sockets = std::mem::take(&mut self.sockets);
        self.service.begin(engine.ops(), now, sockets)
    }

    fn run<E: Engine>(mut self, engine: &mut E, _start: Time) -> io::Result<()> {
        let service = &mut self.service;
        let mut now = engine.now();
        while !service.is_done(self.stop.load(Ordering::Relaxed)) {
            let until = service.next_due().min(now + LONGEST_WAIT);
            engine.turn(until, service)?;
            now = engine.now();
            service.turned(engine.ops(), now);
            service.publish(engine.ops());
        }
        service.shutdown(engine.ops());
        // Sends what is queued; nobody handles what arrives meanwhile.
        engine.turn(now, &mut |_: &mut Ops, _: Time, _: Id, _: Event<'_>| {})?;
        service.publish(engine.ops());
        Ok(())
    }
}
