//! The threads of a server of datagrams or connections: sockets and what serves them come in, one pinned thread each runs
//! the one loop of all servers.

use corelane_worker::crew::{Crew, CrewError, Job, ReadyCell};
use corelane_worker::engine::{Engine, EngineKind, EngineSettings, Event, Handler, Id, Ops};
use corelane_worker::{Time, WorkerSettings};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest that a thread waits before it publishes its counts again: those of an idle server are no older.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// What serves the sockets of one thread: a handler of events, and what the thread's loop calls between turns.
pub(crate) trait Service: Handler {
    /// Registers the sockets that were handed over. Called once, on the service's thread.
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()>;

    /// When [`turned`](Self::turned) is to be called at the latest.
    fn next_due(&self) -> Time {
        Time::NEVER
    }

    /// A turn has ended: acts on deadlines that have passed.
    fn turned(&mut self, _ops: &mut Ops, _now: Time) {}

    /// Publishes counts, those of the engine among them; for the last time where `last`.
    fn publish(&mut self, _ops: &Ops, _last: bool) {}

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
            service.publish(engine.ops(), false);
        }
        service.shutdown(engine.ops());
        // Sends what is queued; nobody handles what arrives meanwhile.
        engine.turn(now, &mut |_: &mut Ops, _: Time, _: Id, _: Event<'_>| {})?;
        service.publish(engine.ops(), true);
        Ok(())
    }
}
