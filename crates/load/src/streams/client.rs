//! A connection in its worker: passes engine events to the connection's state machine, through its TLS session if any,
//! and executes the results: engine operations, counts, the next request.

use super::connection::Context;
use super::event::{Input, Next, Outcome, Settled};
use super::group::Group;
use super::in_flight::InFlight;
use super::protocol::{Ask, StreamProtocol, Traffic};
use super::slot::{Shared, Slot, Stage, TlsConnection};
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::{Cause, ConnectOptions, Event, Id, Ops, Output as _};
use corelane_worker::outgoing::Release;
use corelane_worker::tls::{Channel, HandshakeKind, Plaintext};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Delay before retrying a failed connect, so that a server that refuses is not flooded with attempts.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Window of the moving mean latency, in answers.
const MEAN_OVER: i64 = 64;

/// One connection of a worker, while an event is handled.
pub(crate) struct Client<'a, P: StreamProtocol> {
    pub(crate) ops: &'a mut Ops,
    pub(crate) now: Time,
    pub(crate) index: usize,
    pub(crate) slot: &'a mut Slot<P>,
    pub(crate) group: &'a mut Group<P>,
    pub(crate) shared: &'a mut Shared,
}

impl<P: StreamProtocol> Client<'_, P> {
    /// Handles an event of the connection.
    pub(crate) fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Bytes(bytes) if self.slot.tls.is_some() => self.decrypt(bytes),
            Event::Bytes(bytes) => self.receive(bytes),
            Event::Opened { .. } => self.connected(),
            Event::Drained => self.step(Input::Drained),
            Event::PeerClosed => {
                let genuine = self.slot.tls.as_ref().is_none_or(|tls| tls.session.has_ended());
                self.step(Input::PeerClosed { genuine });
            }
            Event::Closed(cause) => self.closed(cause),
            _ => {}
        }
    }

    /// Handles a timer. Timers are lazy: one that fires too early is set again, so that moving the deadline with every
    /// request is free.
    pub(crate) fn fired(&mut self) {
        (self.slot.timer, self.slot.fires) = (None, Time::NEVER);
        if self.slot.connection.deadline() > self.now {
            self.watch();
        } else if self.slot.id.is_some() {
            self.step(Input::Expired);
        } else {
            self.begin(self.slot.connection.deadline());
        }
    }

    /// Sets the timer, unless it fires early enough.
    fn watch(&mut self) {
        let deadline = self.slot.connection.deadline();
        if deadline >= self.slot.fires {
            return;
        }
        if let Some(timer) = self.slot.timer.take() {
            self.shared.wheel.cancel(timer);
        }
        self.slot.timer = Some(self.shared.wheel.insert(deadline, self.index as u32));
        self.slot.fires = deadline;
    }

    /// Passes an event to the state machine, and executes the result.
    pub(crate) fn step(&mut self, input: Input<'_, '_, P::Request>) {
        if let Some(id) = self.slot.id {
            let next = self.advance(id, input);
            self.follow(id, next);
        }
    }

    /// Passes received bytes, which may hold several answers.
    fn receive(&mut self, mut bytes: &[u8]) {
        let Some(id) = self.slot.id else { return };
        let mut next = self.advance(id, Input::Bytes(&mut bytes));
        if P::InFlight::PIPELINES {
            let mut ready = false;
            while !bytes.is_empty() {
                ready |= next == Next::Ready;
                next = self.advance(id, Input::Bytes(&mut bytes));
            }
            if ready && next == Next::Wait && self.slot.connection.has_room(&self.group.terms) {
                next = Next::Ready;
            }
        }
        self.follow(id, next);
    }

    /// Passes an event to the state machine, and records the outcomes of requests.
    fn advance(&mut self, id: Id, input: Input<'_, '_, P::Request>) -> Next {
        let group = &mut *self.group;
        let mut out = match (&mut self.slot.tls, &mut group.encryption) {
            (Some(tls), Some(encryption)) => encryption.driver.output(self.ops, id, &mut tls.session),
            _ => Channel::plain(self.ops, id),
        };
        let mut context = Context {
            now: self.now,
            terms: &*group.terms,
            counts: &mut group.tally.counts,
            out: &mut out,
            shared: &mut group.shared,
            linger: &mut group.linger,
        };
        let outcome = self.slot.connection.take(input, &mut context);
        if matches!(outcome.next, Next::Close | Next::Leave) {
            context.out.end();
        }
        let Outcome { settled, next } = outcome;
        if let Some(settled) = settled {
            self.settle(settled);
            self.settle_others(settled);
        }
        next
    }

    fn follow(&mut self, id: Id, next: Next) {
        match next {
            Next::Wait => {}
            Next::Hold => self.ops.receive(id, false),
            Next::Resume => self.ops.receive(id, true),
            Next::Ready => self.rest(),
            Next::Due(due) => return self.begin_all(due),
            Next::Close => self.ops.close(id),
            Next::Leave => self.leave(id),
            Next::Reset => self.ops.abort(id),
        }
        self.watch();
    }

    /// Closes a connection that the server has not closed.
    fn leave(&mut self, id: Id) {
        let ports = &self.group.ports;
        if self.slot.source.is_none_or(|source| ports.may_rest(source)) {
            self.ops.close(id);
        } else {
            self.slot.connection.reset_instead();
            self.ops.abort(id);
        }
    }

    /// Records the outcome of a request.
    fn settle(&mut self, settled: Settled) {
        let counts = &mut self.group.tally.counts.requests;
        counts.unfinished -= 1;
        self.shared.settled += 1;
        match settled {
            Settled::Answered(latency) => {
                counts.ok += 1;
                counts.ok_late += u64::from(self.shared.stage == Stage::Draining);
                let histogram = &mut self.group.tally.histograms.latency;
                histogram.record(latency.as_nanos() as u64);
                let mean = self.shared.mean_latency.as_nanos() as i64;
                let mean = mean + (latency.as_nanos() as i64 - mean) / MEAN_OVER;
                self.shared.mean_latency = Duration::from_nanos(mean as u64);
            }
            Settled::Failed(failure) => {
                counts.failed += 1;
                counts.by_cause.count(failure);
                self.group.failed();
            }
            Settled::Aborted => counts.aborted += 1,
        }
    }

    /// Requests in flight on a connection that ends share the outcome of the oldest, or fail if that was answered.
    fn settle_others(&mut self, oldest: Settled) {
        if P::InFlight::PIPELINES {
            let settled = match oldest {
                Settled::Answered(_) => Settled::Failed(Failure::ClosedEarly),
                ended => ended,
            };
            while self.slot.connection.lose() {
                self.settle(settled);
            }
        }
    }

    fn may_ask(&self) -> bool {
        self.shared.stage == Stage::Running && self.group.may_ask(self.index)
    }

    /// Starts the next activity of a connection that has room for a request.
    pub(crate) fn rest(&mut self) {
        if self.group.terms.is_open_loop() {
            self.group.idle.push(self.index - self.group.members.start);
            self.group.busy.freed(self.now);
        } else if self.may_ask() {
            self.think();
        }
    }

    /// Makes the next requests after the pool's think time, which begins when none is in flight.
    fn think(&mut self) {
        let think = self.group.terms.think;
        if think.is_zero() {
            self.begin_all(self.now);
        } else if !self.slot.connection.is_asking() {
            self.wait(self.now + think);
        }
    }

    /// Schedules the next request, or the reopening of a closed connection, at `due`.
    fn wait(&mut self, due: Time) {
        if self.slot.connection.is_closed() {
            self.slot.connection.retry(due);
        } else {
            self.slot.connection.pause(due);
        }
        self.watch();
    }

    /// Like [`wait`](Self::wait), for a connection that just became active, or whose last attempt failed.
    pub(crate) fn retry(&mut self, due: Time) {
        if self.shared.stage == Stage::Running {
            self.wait(due);
        }
    }

    /// Schedules the first request of a connection. Initial think times are randomised, so that clients do not start in
    /// lockstep.
    pub(crate) fn first(&mut self) {
        if self.slot.connection.is_asking() {
            return self.step(Input::Start);
        }
        let terms = &self.group.terms;
        let pause = Duration::from_secs_f64(terms.pool.behaviour.first_pause_s);
        let pause = pause + terms.think.mul_f64(self.shared.random.f64());
        let connection = &self.slot.connection;
        if connection.is_idle() && (pause.is_zero() || terms.is_open_loop()) {
            self.rest();
        } else if connection.is_idle() || connection.is_closed() {
            self.wait(self.now + pause);
        }
    }

    /// Begins a request that was due at `due`; opens the connection first if it is closed. In an open loop, a closed
    /// connection is opened for the next request.
    pub(crate) fn begin(&mut self, due: Time) {
        if !self.may_ask() {
            return;
        }
        let closed = self.slot.connection.is_closed();
        if closed && self.group.terms.is_open_loop() {
            return self.connect(None);
        }
        if !self.count_begun() {
            return;
        }
        if closed {
            self.connect(Some(due));
        } else {
            self.ask(due);
        }
    }

    /// Begins a request that was due at `due`, and as many more as may be in flight.
    fn begin_all(&mut self, due: Time) {
        self.begin(due);
        self.fill(due);
    }

    fn fill(&mut self, due: Time) {
        while P::InFlight::PIPELINES && self.may_ask() && self.slot.connection.has_room(&self.group.terms) {
            self.begin(due);
        }
    }

    /// Counts a request that begins; `false` if there is none any more.
    fn count_begun(&mut self) -> bool {
        let begins = self.group.take();
        let counts = &mut self.group.tally.counts.requests;
        counts.begun += u64::from(begins);
        counts.unfinished += u64::from(begins);
        begins
    }

    /// Begins a request that no server is there for: it fails.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.count_begun() {
            self.settle(Settled::Failed(failure));
        }
    }

    fn ask(&mut self, due: Time) {
        let (terms, random) = (&self.group.terms, &mut self.shared.random);
        let request = P::choose(&terms.requests, &mut self.group.shared, random);
        let abort_share = terms.pool.behaviour.abort_share;
        let ask = Ask {
            due,
            aborts: abort_share > 0.0 && random.f64() < abort_share,
            last: false,
        };
        self.step(Input::Ask(request, ask));
    }

    /// Opens the connection, for the request that was due at `owed` if any; fails if no source is left.
    pub(crate) fn connect(&mut self, owed: Option<Time>) {
        let (ports, target) = (&mut self.group.ports, &self.group.terms.pool.target);
        // The lease of connections to a Unix socket has no address, either.
        let address = target.address().unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
        let Some(source) = ports.take(address, self.now) else {
            let free = ports.next_free().unwrap_or_default();
            self.not_opened(Failure::NoPorts, owed.is_some());
            return self.retry(free.max(self.now + TRY_AGAIN));
        };
        let mut options = ConnectOptions::default();
        options.local = ports.address(source);
        options.timeout = Some(self.group.terms.connect_timeout);
        let id = self.ops.connect(target.clone(), options);
        (self.slot.id, self.slot.source) = (Some(id), Some(source));
        self.slot.connection.open(self.now, owed);
        self.shared.opening += 1;
        self.shared.by_id.insert(id, self.index as u32);
    }

    /// Counts a failed connect, and fails the request that waited for it, if any.
    fn not_opened(&mut self, failure: Failure, had_request: bool) {
        self.group.tally.counts.connections.failed.count(failure);
        self.group.contact.failed(failure);
        if had_request {
            self.settle(Settled::Failed(failure));
        }
    }

    /// The TCP connection is open. Without TLS it is ready.
    fn connected(&mut self) {
        self.group.observe(self.ops, self.slot.id, self.slot.source);
        let (Some(id), Some(encryption)) = (self.slot.id, &mut self.group.encryption) else {
            return self.opened();
        };
        match encryption.driver.open(self.ops, id) {
            Ok(session) => {
                self.slot.tls = Some(Box::new(TlsConnection {
                    session,
                    handshake_began: self.now,
                }));
                let timeout = self.group.terms.connect_timeout;
                self.slot.connection.begin_handshake(timeout);
                self.watch();
            }
            Err(error) => {
                let failure = encryption.counts.count_failed(&error);
                self.step(Input::SessionFailed(failure));
            }
        }
    }

    /// The connection is open, and its handshake complete.
    fn opened(&mut self) {
        let Some((began, owed)) = self.slot.connection.opened() else {
            return;
        };
        self.shared.opening -= 1;
        self.shared.open += 1;
        self.group.contact.opened(self.now);
        let counts = &mut self.group.tally.counts.connections;
        counts.opened += 1;
        counts.opened_again += u64::from(self.shared.stage != Stage::Opening);
        let connect = &mut self.group.tally.histograms.connect;
        connect.record(self.now.since(began).as_nanos() as u64);
        match owed {
            Some(due) => {
                self.ask(due);
                self.fill(due);
            }
            None if P::Traffic::LASTS => {
                if self.count_begun() {
                    self.ask(self.now);
                }
            }
            None => self.rest(),
        }
    }

    /// Processes bytes received over TLS.
    fn decrypt(&mut self, bytes: &[u8]) {
        let (Some(id), Some(tls), Some(encryption)) =
            (self.slot.id, &mut self.slot.tls, &mut self.group.encryption)
        else {
            return;
        };
        if self.slot.connection.has_failed_handshake() {
            return;
        }
        let received = encryption.driver.receive(self.ops, id, &mut tls.session, bytes);
        for event in received.events() {
            match event {
                Plaintext::Opened(kind) => {
                    self.count_handshake(kind);
                    self.opened();
                }
                Plaintext::Bytes(bytes) => self.receive(bytes),
                Plaintext::Ended => self.step(Input::SessionEnded),
                Plaintext::Failed(error) => {
                    let encryption = self.group.encryption.as_mut();
                    let failure = encryption.map(|encryption| encryption.counts.count_failed(error));
                    self.step(Input::SessionFailed(failure.unwrap_or(Failure::Tls)));
                }
            }
        }
        if let Some(encryption) = &mut self.group.encryption {
            encryption.driver.recycle(received);
        }
    }

    fn count_handshake(&mut self, kind: HandshakeKind) {
        if let (Some(tls), Some(encryption)) = (&self.slot.tls, &mut self.group.encryption) {
            encryption.counts.count_handshake(kind, &tls.session);
            let took = self.now.since(tls.handshake_began).as_nanos() as u64;
            self.group.tally.histograms.handshake.record(took);
        }
    }

    /// Takes back the bytes that the kernel has not accepted, at the end of a connection or of the run.
    pub(crate) fn uncount_queued(&mut self) {
        let counted = !P::Traffic::LASTS && self.slot.connection.is_open();
        if let Some(id) = self.slot.id.filter(|_| counted) {
            let sent = &mut self.group.tally.counts.bytes.sent;
            *sent = sent.saturating_sub(self.ops.unsent(id));
        }
    }

    /// The engine has closed the connection. During the run it is reopened, for the next request or to wait for one.
    fn closed(&mut self, cause: Cause) {
        self.step(Input::Left { lasted: false });
        self.uncount_queued();
        if let Some(id) = self.slot.id.take() {
            self.shared.by_id.remove(id);
        }
        self.slot.tls = None;
        let ended = self.slot.connection.closed(cause);
        let mut is_planned = false;
        if let Some(source) = self.slot.source.take() {
            let port = self.group.ports.address(source).map(|address| address.port());
            is_planned = port.is_some_and(|port| port != 0);
            self.group.ports.release(source, ended.release, self.now);
        }
        if !ended.was_open {
            self.shared.opening -= 1;
            // A planned port held by another socket is not a failure of the run: try the next one.
            if is_planned && ended.release == Release::Taken {
                return self.connect(ended.request);
            }
            self.not_opened(ended.failure, ended.request.is_some());
            return self.retry(self.now + TRY_AGAIN);
        }
        self.shared.open -= 1;
        self.group.contact.ended(self.now);
        if P::Traffic::LASTS && self.shared.stage == Stage::Running {
            self.group.contact.failed(ended.failure);
        }
        self.group.tally.counts.connections.reset_by_server += u64::from(cause == Cause::Reset);
        if ended.request.is_some() {
            self.settle(Settled::Failed(ended.failure));
            self.settle_others(Settled::Failed(ended.failure));
        }
        if self.may_ask() {
            self.think();
        }
    }
}
