//! A connection in its worker: passes engine events to the connection's state machine, through its TLS session if any,
//! and executes the results: engine operations, counts, the next request.

use super::connection::{Connection, Input, Next, Outcome, Settled};
use super::group::Group;
use super::protocol::{Ask, Context, StreamProtocol};
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::{Cause, ConnectOptions, Event, Id, Ops, Output as _, Slots};
use corelane_worker::outgoing::{Release, Source};
use corelane_worker::timers::{Timer, Wheel};
use corelane_worker::tls::{Channel, ClientSession, HandshakeKind, Plaintext};
use std::time::Duration;

/// Delay before retrying a failed connect, so that a server that refuses is not flooded with attempts.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Window of the moving mean latency, in answers.
const MEAN_OVER: i64 = 64;

/// A connection and the state its worker keeps for it.
#[derive(Debug)]
pub(crate) struct Slot<P: StreamProtocol> {
    pub(crate) id: Option<Id>,
    /// Its group within the worker.
    pub(crate) group: u16,
    source: Option<Source>,
    timer: Option<Timer>,
    /// When the timer fires; [`Time::NEVER`] if unset.
    fires: Time,
    /// Boxed with the time, as most connections are plain and have neither.
    tls: Option<Box<TlsConnection>>,
    pub(crate) connection: Connection<P>,
}

#[derive(Debug)]
struct TlsConnection {
    session: ClientSession,
    handshake_began: Time,
}

impl<P: StreamProtocol> Slot<P> {
    pub(crate) fn new(group: u16) -> Self {
        Self {
            id: None,
            group,
            source: None,
            timer: None,
            fires: Time::NEVER,
            tls: None,
            connection: Connection::new(),
        }
    }
}

/// State of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are being opened; no requests yet.
    Opening,
    /// Requests are being made.
    Running,
    /// No new requests; pending answers are awaited.
    Draining,
}

/// State shared by the connections of a worker.
pub(crate) struct Shared {
    pub(crate) stage: Stage,
    pub(crate) wheel: Wheel<u32>,
    pub(crate) random: fastrand::Rng,
    /// Connections being opened.
    pub(crate) opening: usize,
    pub(crate) open: u64,
    pub(crate) mean_latency: Duration,
    /// The index of each connection that its engine knows.
    pub(crate) by_id: Slots<u32>,
}

impl Shared {
    /// The shared state of worker `place`, before any connection exists.
    pub(crate) fn new(place: usize, now: Time) -> Self {
        Self {
            stage: Stage::Opening,
            wheel: Wheel::new(now),
            // The same seed in every run, but different for each worker.
            random: fastrand::Rng::with_seed(place as u64),
            opening: 0,
            open: 0,
            mean_latency: Duration::ZERO,
            by_id: Slots::default(),
        }
    }
}

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
            Event::Bytes(bytes) => self.step(Input::Bytes(bytes)),
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
    pub(crate) fn step(&mut self, input: Input<'_>) {
        let Some(id) = self.slot.id else { return };
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
        };
        let outcome = self.slot.connection.take(input, &mut context);
        if outcome.next == Next::Close {
            context.out.end();
        }
        self.apply(id, outcome);
    }

    fn apply(&mut self, id: Id, outcome: Outcome) {
        if let Some(settled) = outcome.settled {
            self.settle(settled);
        }
        match outcome.next {
            Next::Wait => {}
            Next::Hold => self.ops.receive(id, false),
            Next::Resume => self.ops.receive(id, true),
            Next::Ready => return self.rest(),
            Next::Due(due) => return self.begin(due),
            Next::Close => self.ops.close(id),
            Next::Reset => self.ops.abort(id),
        }
        self.watch();
    }

    /// Records the outcome of a request.
    fn settle(&mut self, settled: Settled) {
        let counts = &mut self.group.tally.counts.requests;
        counts.unfinished -= 1;
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
            }
            Settled::Aborted => counts.aborted += 1,
        }
    }

    fn may_ask(&self) -> bool {
        self.shared.stage == Stage::Running && self.group.may_ask(self.index)
    }

    /// Starts the next activity of an idle connection.
    pub(crate) fn rest(&mut self) {
        if self.group.terms.is_open_loop() {
            self.group.idle.push(self.index - self.group.members.start);
            self.group.starving = false;
        } else if self.may_ask() {
            self.think();
        }
    }

    /// Makes the next request after the pool's think time.
    fn think(&mut self) {
        let think = self.group.terms.think;
        if think.is_zero() {
            self.begin(self.now);
        } else {
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
        if self.shared.stage == Stage::Running && !P::IS_TRANSFER {
            self.wait(due);
        }
    }

    /// Schedules the first request of a connection. Initial think times are randomised, so that clients do not start in
    /// lockstep.
    pub(crate) fn first(&mut self) {
        if P::IS_TRANSFER {
            return self.step(Input::Drained);
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
        self.count_begun();
        if closed {
            self.connect(Some(due));
        } else {
            self.ask(due);
        }
    }

    fn count_begun(&mut self) {
        self.group.budget -= 1;
        self.group.tally.counts.requests.begun += 1;
        self.group.tally.counts.requests.unfinished += 1;
    }

    fn ask(&mut self, due: Time) {
        let (terms, random) = (&self.group.terms, &mut self.shared.random);
        let request = P::choose(&terms.requests, random);
        let abort_share = terms.pool.behaviour.abort_share;
        let ask = Ask {
            due,
            request,
            aborts: abort_share > 0.0 && random.f64() < abort_share,
            last: false,
        };
        self.step(Input::Ask(ask));
    }

    /// Opens the connection, for the request that was due at `owed` if any; fails if no source is left.
    pub(crate) fn connect(&mut self, owed: Option<Time>) {
        let ports = &mut self.group.ports;
        let Some(source) = ports.take(self.group.terms.pool.target, self.now) else {
            let free = ports.next_free().unwrap_or_default();
            self.not_opened(Failure::NoPorts, owed.is_some());
            return self.retry(free.max(self.now + TRY_AGAIN));
        };
        let mut options = ConnectOptions::default();
        options.local = ports.address(source);
        options.timeout = Some(self.group.terms.connect_timeout);
        let id = self.ops.connect(self.group.terms.pool.target, options);
        (self.slot.id, self.slot.source) = (Some(id), Some(source));
        self.slot.connection.open(self.now, owed);
        self.shared.opening += 1;
        self.shared.by_id.insert(id, self.index as u32);
    }

    /// Counts a failed connect, and fails the request that waited for it, if any.
    fn not_opened(&mut self, failure: Failure, had_request: bool) {
        self.group.tally.counts.connections.failed.count(failure);
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
        let counts = &mut self.group.tally.counts.connections;
        counts.opened += 1;
        counts.opened_again += u64::from(self.shared.stage != Stage::Opening);
        let connect = &mut self.group.tally.histograms.connect;
        connect.record(self.now.since(began).as_nanos() as u64);
        match owed {
            Some(due) => self.ask(due),
            None if P::IS_TRANSFER => {
                self.count_begun();
                self.ask(self.now);
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
                Plaintext::Bytes(bytes) => self.step(Input::Bytes(bytes)),
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
        let counted = !P::IS_TRANSFER && self.slot.connection.is_open();
        if let Some(id) = self.slot.id.filter(|_| counted) {
            let sent = &mut self.group.tally.counts.bytes.sent;
            *sent = sent.saturating_sub(self.ops.unsent(id));
        }
    }

    /// The engine has closed the connection. During the run it is reopened, for the next request or to wait for one.
    fn closed(&mut self, cause: Cause) {
        if P::IS_TRANSFER {
            self.step(Input::Left { lasted: false });
        }
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
        self.group.tally.counts.connections.reset_by_server += u64::from(cause == Cause::Reset);
        if ended.request.is_some() {
            self.settle(Settled::Failed(ended.failure));
        }
        if !P::IS_TRANSFER && self.may_ask() {
            self.think();
        }
    }
}
