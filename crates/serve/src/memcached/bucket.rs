//! The connections and datagrams of one bucket: passes the engine's events to them.

use super::answers::Answers;
use super::connection::{Connection, Next, STALLED};
use super::connections::{Open, State};
use super::counters::MemcachedCounters;
use super::datagrams::Datagrams;
use super::exchange::{Client, Exchange};
use super::session::{Context, Refused};
use super::shared::Shared;
use super::takeover::TakeOver;
use super::units::Upcoming;
use super::worker::Worker;
use crate::service::Service;
use corelane_proto::memcached::watch::{Entry, Peer, Reason};
use corelane_worker::engine::{Cause, Event, Handler, Id, Ops, Output as _, Waker};
use corelane_worker::timers::Wheel;
use corelane_worker::tls::{Connections, Plaintext, ServerSettings};
use corelane_worker::{CachePadded, Time};
use socket2::{SockRef, Type};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The answer to a connection beyond the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// How long the end of a connection waits for its client's, so that what that has sent does not reset it before the answers
/// are read.
const LINGER: Duration = Duration::from_secs(1);

/// One bucket.
pub struct Bucket {
    index: usize,
    shared: Arc<Shared>,
    counters: Arc<CachePadded<MemcachedCounters>>,
    pub(super) connections: Connections<Slot, ServerSettings>,
    pub(super) datagrams: Datagrams,
    pub(super) exchange: Exchange,
    pub(super) taken_over: TakeOver,
    upcoming: Upcoming,
    /// There once the worker's thread runs.
    pub(super) worker: Option<Worker>,
    /// Answers before they are queued.
    pub(super) gathered: Vec<u8>,
    /// Ends of connections that linger or are idle.
    pub(super) wheel: Wheel<Id>,
    /// The time of this event or turn.
    pub(super) now: Time,
    /// The last connection that was closed because it was idle.
    kicked: Option<Id>,
    /// Connections that go on when other workers have been looked at: those that wait for room, and those that got answers.
    pub(super) waiting: Vec<Id>,
    /// Those that go on when others have taken their answers.
    pub(super) crowded: VecDeque<Id>,
    /// When messages that found no room are posted again, and the others are taken.
    pub(super) look_again: Time,
}

/// A connection, unless it is refused.
pub(super) struct Slot(pub(super) Option<Connection>);

impl Bucket {
    pub(super) fn new(
        index: usize,
        shared: Arc<Shared>,
        (datagrams, exchange): (Datagrams, Exchange),
        tls: Option<ServerSettings>,
        counters: Arc<CachePadded<MemcachedCounters>>,
    ) -> Self {
        // It is made once.
        let _ = shared.counters[index].set(Arc::clone(&counters));
        Self {
            index,
            datagrams,
            shared,
            counters,
            connections: Connections::new(tls),
            exchange,
            taken_over: TakeOver::default(),
            upcoming: Upcoming::default(),
            worker: None,
            gathered: Vec::new(),
            wheel: Wheel::new(Time::default()),
            now: Time::default(),
            kicked: None,
            waiting: Vec::new(),
            crowded: VecDeque::new(),
            look_again: Time::NEVER,
        }
    }

    fn opened(&mut self, ops: &mut Ops, id: Id, peer: Option<SocketAddr>) {
        let Some(worker) = &mut self.worker else { return };
        let accepted = self.shared.admit();
        let slot = Slot(accepted.then(Connection::default));
        let (local, heard, state) = (ops.local_address(id), worker.clock.now, State::Reads);
        let open = Open {
            peer,
            local,
            heard,
            state,
        };
        worker.connections.open(id.slot(), open);
        worker.record(&Entry::Opened(Peer {
            connection: Client::Connection(id).number(self.index, self.shared.plan.workers()),
            address: peer,
        }));
        if self.connections.open(ops, id, slot).is_err() {
            worker.events.tls_failed += 1;
        } else if !accepted {
            worker.events.rejected_connections += 1;
            if !self.connections.are_encrypted() {
                ops.write_static(id, TOO_MANY);
            }
            ops.shutdown(id);
            self.wheel.insert(self.now + LINGER, id);
        } else if let Some(seconds) = self.shared.plan.behaviour.idle_timeout
            && let Some(Slot(Some(connection))) = self.connections.get_mut(id)
        {
            let due = self.now + Duration::from_secs(seconds.into());
            connection.look_again(&mut self.wheel, due, id);
        }
    }

    /// Sets the time of what follows.
    #[inline]
    fn set_time(&mut self, now: Time) {
        self.now = now;
        if let Some(worker) = &mut self.worker {
            worker.set_time(now);
        }
    }

    /// Closes a connection that lingers, or one that has been idle for too long. While it is answered it is not idle.
    fn expired(&mut self, ops: &mut Ops, id: Id) {
        let Some(worker) = &mut self.worker else { return };
        let Some((Slot(connection), channel)) = self.connections.at(ops, id) else {
            return;
        };
        let is_answered = channel.queued() == 0;
        let Some(connection) = connection else {
            return ops.close(id);
        };
        connection.timer = None;
        if connection.lingers {
            return ops.close(id);
        }
        if connection.holds() {
            if connection.is_stalled(self.now) && self.exchange.budget.is_spent() {
                worker.events.stalled += 1;
                return ops.abort(id);
            }
            return connection.look_again(&mut self.wheel, self.now + STALLED, id);
        }
        let idle_timeout = self.shared.plan.behaviour.idle_timeout;
        let Some(seconds) = idle_timeout.filter(|_| !connection.session.is_watching()) else {
            return;
        };
        let idle = match connection.is_busy() || !is_answered {
            true => 0,
            false => {
                let heard = worker.connections.get(id.slot()).map_or(0, |open| open.heard);
                worker.clock.now.saturating_sub(heard)
            }
        };
        if idle >= seconds {
            worker.events.idle_kicks += 1;
            self.kicked = Some(id);
            ops.close(id);
        } else {
            let due = self.now + Duration::from_secs((seconds - idle).into());
            connection.look_again(&mut self.wheel, due, id);
        }
    }

    /// Passes what happened on a connection to it, and does what follows.
    #[inline]
    pub(super) fn serve(
        &mut self,
        ops: &mut Ops,
        id: Id,
        what: impl FnOnce(&mut Connection, &mut Context<'_>, &mut Answers<'_>) -> Next,
    ) {
        let Some(worker) = &mut self.worker else { return };
        let Some((Slot(Some(connection)), channel)) = self.connections.at(ops, id) else {
            return;
        };
        if connection.lingers {
            return;
        }
        let mut answers = Answers::new(&mut self.gathered, channel);
        let mut context = Context {
            worker,
            exchange: &mut self.exchange,
            client: Client::Connection(id),
        };
        let next = what(connection, &mut context, &mut answers);
        let (mut channel, failed) = answers.into_channel();
        let at = (&mut self.wheel, self.now, id);
        connection.account(channel.queued(), at, &mut self.exchange.budget);
        if failed {
            return ops.abort(id);
        }
        match next {
            Next::Receive if connection.stopped => {
                connection.stopped = false;
                ops.receive(id, true);
            }
            Next::Receive => {}
            Next::Drain => {
                worker.events.pauses += 1;
                connection.stopped = true;
                channel.notify_drained();
                ops.receive(id, false);
            }
            Next::Wait(refused) => {
                connection.stopped = true;
                match refused {
                    Refused::Answers => connection.awaits = true,
                    Refused::Mailbox => self.waiting.push(id),
                    Refused::Memory if mem::replace(&mut connection.waits_for_room, true) => {}
                    Refused::Memory => self.crowded.push_back(id),
                }
                ops.receive(id, false);
            }
            Next::Close => {
                channel.end();
                if connection.ended {
                    return ops.close(id);
                }
                connection.lingers = true;
                connection.look_again(&mut self.wheel, self.now + LINGER, id);
                ops.receive(id, true);
                ops.shutdown(id);
            }
        }
    }

    #[inline]
    fn received(&mut self, ops: &mut Ops, id: Id, bytes: &[u8]) {
        self.serve(ops, id, |connection, context, out| {
            let now = context.worker.clock.now;
            if let Some(open) = context.worker.connections.get(id.slot()) {
                open.heard = now;
            }
            connection.receive(bytes, context, out)
        });
    }

    fn peer_closed(&mut self, ops: &mut Ops, id: Id) {
        self.serve(ops, id, |connection, context, out| {
            connection.ended = true;
            connection.resume(context, out)
        });
        // A refused one has no connection.
        let slot = self.connections.get_mut(id);
        if slot.is_some_and(|Slot(slot)| slot.as_ref().is_none_or(|connection| connection.lingers)) {
            ops.close(id);
        }
    }

    /// Handles bytes received over TLS.
    fn decrypt(&mut self, ops: &mut Ops, id: Id, bytes: &[u8]) {
        let Some(received) = self.connections.receive(ops, id, bytes) else {
            return;
        };
        for event in received.events() {
            match event {
                Plaintext::Opened(kind) => self.counters.handshakes.count(kind),
                Plaintext::Bytes(bytes) => self.received(ops, id, bytes),
                Plaintext::Ended => self.peer_closed(ops, id),
                Plaintext::Failed(_) => {
                    if let Some(worker) = &mut self.worker {
                        worker.events.tls_failed += 1;
                    }
                    ops.close(id);
                }
            }
        }
        self.connections.recycle(received);
    }

    /// Passes on that a connection has ended.
    fn record_end(&mut self, id: Id, cause: Cause) {
        let kicked = self.kicked.take_if(|kicked| *kicked == id).is_some();
        let Some(worker) = &mut self.worker else { return };
        if let Some(open) = worker.connections.close(id.slot()) {
            let peer = Peer {
                connection: Client::Connection(id).number(self.index, self.shared.plan.workers()),
                address: open.peer,
            };
            let reason = match cause {
                _ if kicked => Reason::IdleTimeout,
                Cause::Asked => Reason::Normal,
                _ => Reason::Error,
            };
            worker.record(&Entry::Closed(peer, reason));
        }
    }

    fn closed(&mut self, id: Id) {
        let Some(Slot(connection)) = self.connections.remove(id) else {
            return;
        };
        // A refused one is not counted.
        let Some(mut connection) = connection else { return };
        if let Some(timer) = connection.timer.take() {
            self.wheel.cancel(timer);
        }
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(worker) = &mut self.worker {
            let mut context = Context {
                worker,
                exchange: &mut self.exchange,
                client: Client::Connection(id),
            };
            connection.end(&mut context);
        }
    }

    /// Writes what watchers of this worker wait for.
    #[cold]
    fn write_watched(&mut self, ops: &mut Ops) {
        for id in self.shared.watchers.of(self.index) {
            self.serve(ops, id, Connection::resume);
        }
    }
}

impl Handler for Bucket {
    #[inline]
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.set_time(now);
        match event {
            Event::Bytes(bytes) if self.connections.are_encrypted() => self.decrypt(ops, id, bytes),
            Event::Bytes(bytes) => self.received(ops, id, bytes),
            Event::Datagrams(datagrams) => {
                if let Some(worker) = &mut self.worker {
                    self.datagrams
                        .receive(ops, id, datagrams, worker, &mut self.exchange);
                    self.datagrams.account(&mut self.exchange);
                }
            }
            Event::Woken => {
                self.exchange(ops);
                if self.shared.watchers.observed() != 0 {
                    self.write_watched(ops);
                }
            }
            Event::Opened { peer, .. } => self.opened(ops, id, peer),
            Event::Drained => self.serve(ops, id, Connection::resume),
            Event::PeerClosed => self.peer_closed(ops, id),
            Event::Closed(cause) => {
                self.record_end(id, cause);
                self.closed(id);
            }
            _ => {}
        }
        self.exchange.wake();
    }

    #[inline]
    fn upcoming(&mut self, bytes: &[u8]) {
        if let Some(worker) = self.worker.as_ref().filter(|_| !self.connections.are_encrypted()) {
            self.upcoming.load(bytes, worker);
        }
    }
}

impl Service for Bucket {
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        let mut listeners = Vec::new();
        for socket in sockets {
            match SockRef::from(&socket).r#type()? {
                Type::DGRAM => drop(ops.datagrams(UdpSocket::from(socket))?),
                _ => listeners.push(ops.listen(socket)?),
            }
        }
        self.wheel = Wheel::new(now);
        let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&self.counters));
        let mut worker = Worker::new(self.index, shared, counters, now)?;
        for id in listeners {
            let (local, heard) = (ops.local_address(id), worker.clock.now);
            let (peer, state) = (None, State::Listens);
            worker.connections.open(
                id.slot(),
                Open {
                    peer,
                    local,
                    heard,
                    state,
                },
            );
        }
        self.worker = Some(worker);
        Ok(())
    }

    fn wakes_by(&mut self, waker: Waker) {
        // It is called once.
        let _ = self.shared.wakers[self.index].set(waker);
    }

    fn next_due(&self) -> Time {
        let untidy = self.worker.as_ref().is_some_and(Worker::is_untidy);
        if untidy {
            return Time::default();
        }
        self.wheel.next_due().min(self.look_again)
    }

    fn turned(&mut self, ops: &mut Ops, now: Time) {
        self.set_time(now);
        while let Some(id) = self.wheel.expired(now) {
            self.expired(ops, id);
        }
        self.uncrowd(ops);
        if self.look_again <= now {
            self.exchange(ops);
            self.exchange.wake();
        }
        self.plan_look();
        if let Some(worker) = &mut self.worker {
            let measured = &self.exchange.measured;
            worker.handoffs = (measured.handoffs, measured.queue_percent);
            worker.turned(now, || ops.counters().streams);
        }
    }

    fn shutdown(&mut self, _ops: &mut Ops) {
        if let Some(worker) = &mut self.worker {
            worker.publish();
        }
    }
}
