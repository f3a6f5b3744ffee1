//! What one worker of the TCP generator does: opens its connections, keeps each of them writing or reading, looks again and
//! again whether each makes progress, and waits at the end for what is still on its way.
//!
//! In: its part of the plan, events of its engine. Out: bytes through the engine; at the end an [`Outcome`].

use super::loaded::{Stall, TcpCounts};
use super::plan::{Direction, TcpPlan, WRITE_BYTES};
use crate::failure::Failure;
use crate::showing::{Showing, Shown};
use crate::sources::{PortPool, Release, Source};
use corelane_host::usage::{self, Usage};
use corelane_measure::histogram::Histogram;
use corelane_worker::crew::Job;
use corelane_worker::engine::{Cause, ConnectOptions, Engine, Event, Handler, Id, Ops};
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Bytes that a rate may have queued on a connection: a peer that takes less than its rate is not made up for.
const MOST_QUEUED: u64 = WRITE_BYTES as u64;

/// What is written: zeros, as the measure is how many.
static BLOCK: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; WRITE_BYTES as usize].into());

/// How often connections are looked at: for progress, and for what a rate allows.
const LOOK: Duration = Duration::from_millis(20);

/// What a look may take of the time, for each connection of the run: with more than 10,000, looks are rarer, so that looking at
/// a million leaves time for moving bytes.
const LOOK_A_CONNECTION: Duration = Duration::from_micros(2);

/// Connections being opened at a time, over all workers (see `http::generator`).
const OPENING_AT_ONCE: usize = 1_024;

/// Stalls that one worker names; all are counted.
const STALLS_NAMED: usize = 64;

/// What anyone may read while a worker runs.
#[derive(Debug, Default)]
pub(super) struct LiveCounters {
    pub(super) open: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
    pub(super) stalled: Counter,
    pub(super) shown: Showing<Shown>,
    /// 1 when nothing more is moved.
    pub(super) drained: Counter,
}

/// One connection: about 90 bytes, no allocation.
#[derive(Debug)]
struct Connection {
    id: Option<Id>,
    source: Option<Source>,
    is_open: bool,
    stalled: bool,
    opened: Time,
    /// Bytes handed to the engine.
    handed: u64,
    received: u64,
    /// Bytes moved when it was last looked at, and when it last made progress.
    seen: u64,
    progress: Time,
}

/// One worker's generator.
pub(super) struct Generator {
    plan: Arc<TcpPlan>,
    stop: Arc<AtomicBool>,
    live: Arc<CachePadded<LiveCounters>>,
    connections: Vec<Connection>,
    of_slot: Vec<u32>,
    ports: PortPool,
    counts: TcpCounts,
    connect: Histogram,
    /// How late looks were that a rate asks for.
    lag: Histogram,
    stalls: Vec<Stall>,
    /// Bytes that each connection moved that was open to the end.
    moved: Vec<u64>,
    opening: usize,
    /// None before the run.
    start: Option<Time>,
    /// The time to write is over.
    draining: bool,
    /// When the last bytes arrived that are known of.
    arrived: Time,
}

/// What one worker has to tell at its end.
pub(super) struct Outcome {
    pub(super) counts: TcpCounts,
    pub(super) connect: Histogram,
    pub(super) lag: Histogram,
    pub(super) stalls: Vec<Stall>,
    /// Bytes that each connection moved that was open to the end.
    pub(super) moved: Vec<u64>,
    /// Until the last byte that was waited for.
    pub(super) running: Duration,
    pub(super) usage: Usage,
}

impl Generator {
    /// The generator of worker `place`, with no connection open.
    pub(super) fn new(
        plan: Arc<TcpPlan>,
        place: usize,
        stop: Arc<AtomicBool>,
        live: Arc<CachePadded<LiveCounters>>,
    ) -> Self {
        let planned = &plan.workers[place];
        let connection = |_| Connection {
            id: None,
            source: None,
            is_open: false,
            stalled: false,
            opened: Time::default(),
            handed: 0,
            received: 0,
            seen: 0,
            progress: Time::default(),
        };
        Self {
            stop,
            live,
            connections: (0..planned.sockets()).map(connection).collect(),
            of_slot: Vec::new(),
            ports: PortPool::new(&planned.leases),
            counts: TcpCounts {
                asked: planned.sockets() as u64,
                ..TcpCounts::default()
            },
            connect: Histogram::new(),
            lag: Histogram::new(),
            stalls: Vec::new(),
            moved: Vec::new(),
            opening: 0,
            start: None,
            draining: false,
            arrived: Time::default(),
            plan,
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn open(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let Some(source) = self.ports.take(now) else {
            self.counts.not_opened.count(Failure::NoPorts);
            return;
        };
        let mut options = ConnectOptions::default();
        options.local = self.ports.address(source);
        options.timeout = Some(Duration::from_secs_f64(self.plan.connect_timeout_s));
        let id = ops.connect(self.plan.target, options);
        let connection = &mut self.connections[index];
        (connection.id, connection.source, connection.opened) = (Some(id), Some(source), now);
        self.opening += 1;
        if self.of_slot.len() <= id.slot() {
            self.of_slot.resize(id.slot() + 1, u32::MAX);
        }
        self.of_slot[id.slot()] = index as u32;
    }

    /// Has a connection write: the next piece, or what its rate has allowed by now.
    fn write(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let (Some(start), connection) = (
            self.start.filter(|_| !self.draining),
            &mut self.connections[index],
        ) else {
            return;
        };
        let Some(id) = connection
            .id
            .filter(|_| connection.is_open && self.plan.direction.writes())
        else {
            return;
        };
        let block: &'static [u8] = &BLOCK;
        let block = &block[..(self.plan.write_bytes as usize).clamp(1, block.len())];
        let Some(rate) = self.plan.write_bytes_per_second else {
            ops.write_static(id, block);
            connection.handed += block.len() as u64;
            ops.tell_drained(id);
            return;
        };
        let allowed = (rate as f64 * now.since(start).as_secs_f64()) as u64;
        let mut due = allowed.saturating_sub(connection.handed);
        while due > 0 && ops.queued(id) < MOST_QUEUED {
            let piece = usize::try_from(due).map_or(block.len(), |due| due.min(block.len()));
            ops.write_static(id, &block[..piece]);
            connection.handed += piece as u64;
            due -= piece as u64;
        }
    }

    /// How long it is from one look at the connections to the next.
    fn look_interval(&self) -> Duration {
        let all = self.plan.connections();
        LOOK.max(LOOK_A_CONNECTION.saturating_mul(u32::try_from(all).unwrap_or(u32::MAX)))
    }

    /// Looks at every connection: whether it has made progress, and what its rate allows.
    fn look(&mut self, ops: &mut Ops, now: Time) {
        let stall = Duration::from_secs_f64(self.plan.stall_s);
        let (mut sent, mut received, mut stalled) = (0, 0, 0);
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let Some(id) = connection.id.filter(|_| connection.is_open) else {
                continue;
            };
            let gone = connection.handed - ops.queued(id);
            let moved = gone + connection.received;
            sent += gone;
            received += connection.received;
            // A writer that its rate holds back does not stand still.
            let waits = ops.queued(id) > 0 || !self.plan.direction.writes();
            if moved != connection.seen || !waits {
                (connection.seen, connection.progress) = (moved, now);
                if std::mem::take(&mut connection.stalled) {
                    self.end_stall(ops, index, now);
                }
            } else if !connection.stalled && now.since(connection.progress) >= stall {
                connection.stalled = true;
                self.begin_stall(ops, index);
            }
            stalled += u64::from(self.connections[index].stalled);
            if self.plan.write_bytes_per_second.is_some() {
                self.write(ops, index, now);
            }
        }
        self.live.sent.set(self.counts.sent_bytes + sent);
        self.live.received.set(self.counts.received_bytes + received);
        self.live.stalled.set(stalled);
        self.show();
    }

    /// Tells those who watch.
    fn show(&self) {
        self.live
            .open
            .set(self.counts.opened - self.counts.broken.total());
        self.live.shown.show(|| Shown {
            times: Some(self.connect.clone()),
            failures: self.counts.broken,
            not_opened: self.counts.not_opened,
        });
    }

    fn begin_stall(&mut self, ops: &Ops, index: usize) {
        self.counts.stalls += 1;
        let connection = &self.connections[index];
        if self.stalls.len() < STALLS_NAMED
            && let (Some(id), Some(start)) = (connection.id, self.start)
        {
            self.stalls.push(Stall {
                local: ops.local_address(id),
                peer: self.plan.target,
                since_s: connection.progress.since(start).as_secs_f64(),
                for_s: 0.0,
                ended: false,
                bytes: connection.seen,
            });
        }
    }

    fn end_stall(&mut self, ops: &Ops, index: usize, now: Time) {
        let (Some(start), Some(id)) = (self.start, self.connections[index].id) else {
            return;
        };
        let local = ops.local_address(id);
        if let Some(stall) = self
            .stalls
            .iter_mut()
            .find(|stall| !stall.ended && stall.local == local)
        {
            stall.for_s = now.since(start).as_secs_f64() - stall.since_s;
            stall.ended = true;
        }
    }

    /// Adds what a connection moved to the counts, as it ends.
    fn settle(&mut self, index: usize, queued: u64) -> u64 {
        let connection = &mut self.connections[index];
        let sent = connection.handed - queued.min(connection.handed);
        self.counts.sent_bytes += sent;
        self.counts.received_bytes += connection.received;
        let moved = sent + connection.received;
        (connection.handed, connection.received) = (0, 0);
        moved
    }

    /// A connection was open to the end: what it moved, and what the kernel has to tell of it.
    fn lasted(&mut self, ops: &Ops, index: usize) {
        let connection = &self.connections[index];
        let Some(id) = connection.id.filter(|_| connection.is_open) else {
            return;
        };
        if let Some(told) = ops.information(id) {
            self.counts.retransmitted += u64::from(told.retransmitted);
            self.counts.out_of_order += u64::from(told.out_of_order);
        }
        self.counts.open_at_end += 1;
        self.counts.stalled_at_end += u64::from(connection.stalled);
        let moved = self.settle(index, ops.queued(id));
        self.moved.push(moved);
        let connection = &mut self.connections[index];
        (connection.id, connection.is_open) = (None, false);
    }

    /// Ends this side of every connection, and waits until the server has ended its own: by then everything that either
    /// end sent has arrived. What the kernel has not taken is not sent any more.
    fn drain<E: Engine>(&mut self, engine: &mut E, longest: Duration) -> io::Result<()> {
        let open = |connection: &Connection| connection.is_open;
        for connection in self.connections.iter_mut().filter(|connection| open(connection)) {
            if let Some(id) = connection.id {
                connection.handed -= engine.ops().discard(id);
                engine.ops().shutdown(id);
            }
        }
        let give_up = engine.now() + longest;
        while self.connections.iter().any(open) && engine.now() < give_up {
            engine.turn(give_up.min(engine.now() + LOOK), self)?;
        }
        self.counts.undrained = self.connections.iter().filter(|one| open(one)).count() as u64;
        Ok(())
    }

    /// What has become of it all.
    fn outcome(mut self, ops: &mut Ops, running: Duration, usage: Usage) -> Outcome {
        for index in 0..self.connections.len() {
            self.lasted(ops, index);
        }
        for stall in self.stalls.iter_mut().filter(|stall| !stall.ended) {
            stall.for_s = running.as_secs_f64() - stall.since_s;
        }
        Outcome {
            counts: self.counts,
            connect: self.connect,
            lag: self.lag,
            stalls: self.stalls,
            moved: self.moved,
            running,
            usage,
        }
    }
}

impl Job for Generator {
    type Outcome = Outcome;

    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let at_once = (OPENING_AT_ONCE / self.plan.workers.len()).max(16);
        let mut next = 0;
        while (next < self.connections.len() || self.opening > 0) && !self.stopped() {
            let now = engine.now();
            while next < self.connections.len() && self.opening < at_once {
                self.open(engine.ops(), next, now);
                next += 1;
            }
            engine.turn(now + LOOK, self)?;
            self.show();
        }
        Ok(())
    }

    fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Outcome> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, &mut self)?;
        }
        let usage = usage::of_thread();
        let end = start + Duration::from_secs_f64(self.plan.duration_s);
        self.start = Some(start);
        for index in 0..self.connections.len() {
            self.connections[index].progress = start;
            self.write(engine.ops(), index, start);
        }
        let interval = self.look_interval();
        let mut next_look = start + interval;
        while engine.now() < end && !self.stopped() {
            engine.turn(end.min(next_look), &mut self)?;
            let now = engine.now();
            if now >= next_look {
                if self.plan.write_bytes_per_second.is_some() {
                    self.lag.record(now.since(next_look).as_nanos() as u64);
                }
                self.look(engine.ops(), now);
                next_look = now.max(next_look) + interval;
            }
        }
        self.draining = true;
        let over = engine.now();
        self.look(engine.ops(), over);
        if let Some(longest) = self.plan.drain_s {
            self.drain(engine, Duration::from_secs_f64(longest))?;
        }
        self.live.drained.set(1);
        let (running, usage) = (
            self.arrived.max(over).since(start),
            usage::of_thread().since(&usage),
        );
        Ok(self.outcome(engine.ops(), running, usage))
    }
}

impl Handler for Generator {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        let found = self.of_slot.get(id.slot()).map(|index| *index as usize);
        let Some(index) = found.filter(|index| {
            self.connections
                .get(*index)
                .is_some_and(|found| found.id == Some(id))
        }) else {
            return;
        };
        let connection = &mut self.connections[index];
        match event {
            Event::Bytes(bytes) => {
                connection.received += bytes.len() as u64;
                self.arrived = now;
            }
            Event::Drained => self.write(ops, index, now),
            Event::Opened { .. } => {
                connection.is_open = true;
                self.opening -= 1;
                self.counts.opened += 1;
                self.connect
                    .record(now.since(connection.opened).as_nanos() as u64);
            }
            // It is over: everything has arrived, there and here.
            Event::PeerClosed if self.draining => {
                if self.plan.direction == Direction::Write {
                    // The server has taken the last of them.
                    self.arrived = now;
                }
                self.lasted(ops, index);
                ops.close(id);
            }
            // The server has ended its side: nothing more is expected of it.
            Event::PeerClosed => {
                self.counts.broken.count(Failure::ClosedEarly);
                self.ended(ops, index, now);
                ops.close(id);
            }
            Event::Closed(cause) => self.closed(ops, index, cause, now),
            _ => {}
        }
    }
}

impl Generator {
    fn closed(&mut self, ops: &mut Ops, index: usize, cause: Cause, now: Time) {
        if self.connections[index].is_open {
            self.counts.broken.count(Failure::of_cause(cause, true));
            self.ended(ops, index, now);
            return;
        }
        self.opening -= 1;
        let failure = Failure::of_cause(cause, false);
        let connection = &mut self.connections[index];
        connection.id = None;
        let planned = connection.source.take();
        let port = planned.and_then(|source| self.ports.address(source));
        // A planned port that somebody else holds is none of the run's: the next one is as good.
        let taken = failure == Failure::NoPorts && port.is_some_and(|address| address.port() != 0);
        if let Some(source) = planned {
            let release = if taken { Release::Taken } else { Release::Free };
            self.ports.release(source, release, now);
        }
        if taken && !self.stopped() {
            self.open(ops, index, now);
        } else {
            self.counts.not_opened.count(failure);
        }
    }

    /// A connection has ended during the run; it is not opened again.
    fn ended(&mut self, ops: &Ops, index: usize, now: Time) {
        if std::mem::take(&mut self.connections[index].stalled) {
            self.end_stall(ops, index, now);
        }
        let queued = self.connections[index].id.map_or(0, |id| ops.queued(id));
        self.settle(index, queued);
        let connection = &mut self.connections[index];
        (connection.id, connection.is_open) = (None, false);
    }
}
