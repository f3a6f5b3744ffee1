//! One worker of the generator: sends according to its pace, receives answers, and counts the outcome of each request.
//!
//! In: a lease of sources, a start time, events of its engine. Out: protocol requests through the engine; at the end an
//! [`Outcome`].

mod live;
mod mix;
mod open;

use super::document::Counts;
use super::flow::Flow;
use super::metrics::LiveDatagrams;
use super::plan::UdpPlan;
use super::protocol::DatagramProtocol;
use crate::alignment::{AlignmentCounts, Observer};
use crate::live::LiveWorkers;
use crate::pace::{Pace, Schedule};
use crate::standstill::Standstill;
use corelane_measure::histogram::Histogram;
use corelane_proto::probe::Arrival;
use corelane_worker::crew::Job;
use corelane_worker::engine::{Engine, Event, Handler, Id, Ops};
use corelane_worker::{Time, group};
use live::by_cause;
use mix::Mix;
use open::open_sockets;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Datagrams sent by one socket before the next one's turn if nothing else paces it: one `sendmmsg`, and at most one
/// `UDP_SEGMENT` send (`UDP_MAX_SEGMENTS` is 64 in older kernels).
const BURST: u32 = 64;

/// Bytes that the kernel counts for a datagram in a receive buffer besides its payload.
const KERNEL_BYTES_A_DATAGRAM: usize = 2_048;

/// Half of the usual receive buffer (`net.core.rmem_default`); the kernel doubles what is set.
const USUAL_BUFFER: usize = 106_496;

/// Wait of a turn while the kernel does not accept queued datagrams.
const QUEUE_LOOK: Duration = Duration::from_millis(1);

/// Longest wait of a turn while sending.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// What the workers of a run share.
#[derive(Clone)]
pub(super) struct Shared<P> {
    pub(super) plan: Arc<UdpPlan<P>>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) live: LiveWorkers<LiveDatagrams>,
    /// Observes where sockets land, if their sources were aligned.
    pub(super) observer: Option<Arc<Observer>>,
}

/// One worker's generator.
pub(super) struct Generator<P: DatagramProtocol> {
    pub(super) plan: Arc<UdpPlan<P>>,
    /// A copy of the plan's protocol in this worker's memory.
    protocol: P,
    stop: Arc<AtomicBool>,
    /// What all workers publish; this one's is at its place.
    live: LiveWorkers<LiveDatagrams>,
    /// This worker's place, which determines its share of the schedule.
    place: usize,
    pub(super) flows: Vec<Flow<P::Sent>>,
    /// Flow of each engine slot.
    flow_of_slot: Vec<u32>,
    /// Datagrams that may still be sent.
    budget: u64,
    tally: Tally,
    /// Datagrams sent and not settled, over all flows.
    pub(super) outstanding: u64,
    /// The next flow to send.
    cursor: usize,
    /// Flows whose window could not be filled because the arena was full.
    starved: Vec<u32>,
    standstill: Standstill,
    observer: Option<Arc<Observer>>,
}

/// Counts and times of one worker, reported at its end.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// By lease: datagrams sent, and answers returned.
    pub(super) leases: Vec<(u64, u64)>,
    pub(super) alignment: AlignmentCounts,
    pub(super) round_trip: Histogram,
    pub(super) schedule_lag: Histogram,
    pub(super) sending: Duration,
    /// Of `sending`, the time in which the worker stood still.
    pub(super) stood_still: Duration,
}

impl<P: DatagramProtocol> Generator<P> {
    /// The generator of worker `place`, without sockets.
    pub(super) fn new(place: usize, shared: Shared<P>) -> Self {
        let Shared {
            plan,
            stop,
            live,
            observer,
        } = shared;
        Self {
            protocol: plan.protocol.clone(),
            stop,
            live,
            place,
            flows: Vec::new(),
            flow_of_slot: Vec::new(),
            budget: plan.budget(place),
            tally: Tally::default(),
            outstanding: 0,
            cursor: 0,
            starved: Vec::new(),
            standstill: Standstill::new(),
            observer,
            plan,
        }
    }

    /// The receive buffer that holds the answers to a window, if the usual one might not.
    fn receive_buffer(&self) -> Option<usize> {
        let Pace::Window { datagrams } = self.plan.pace else {
            return None;
        };
        // The kernel counts at most twice the bytes of a datagram and its own structures.
        let bytes = datagrams as usize * (2 * self.protocol.request_bytes() + KERNEL_BYTES_A_DATAGRAM);
        (bytes > USUAL_BUFFER).then_some(bytes)
    }

    /// Adds a socket of a lease to the senders.
    pub(super) fn add(&mut self, id: Id, lease: usize) {
        self.flow_of_slot
            .resize(self.flow_of_slot.len().max(id.slot() + 1), 0);
        self.flow_of_slot[id.slot()] = self.flows.len() as u32;
        self.flows.push(Flow::new(id, lease as u32));
        let leases = self.tally.leases.len().max(lease + 1);
        self.tally.leases.resize(leases, (0, 0));
    }

    /// Sends from `start` until the plan's end or a stop, waits for the last answers, and returns the results.
    fn send_all<E: Engine>(&mut self, engine: &mut E, start: Time) -> io::Result<()> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, self)?;
        }
        self.standstill.begin(engine.now());
        let duration = self.plan.until.duration_s.map(Duration::from_secs_f64);
        let end = duration.map_or(Time::NEVER, |duration| start + duration);
        let mix = Mix::new(&self.plan, self.place, &self.live);
        match (self.plan.pace, mix) {
            (Pace::Rate { per_second }, mix) => {
                self.follow_schedule(engine, mix, (start, end), per_second)?;
            }
            (Pace::Flood, None) => self.flood(engine, end)?,
            (Pace::Flood, Some(mut mix)) => self.keep_mix(engine, &mut mix, end, None)?,
            (Pace::Window { datagrams }, None) => self.keep_window(engine, end, datagrams)?,
            (Pace::Window { datagrams }, Some(mut mix)) => {
                self.keep_mix(engine, &mut mix, end, Some(datagrams))?;
            }
        }
        self.tally.sending = engine.now().since(start);
        self.tally.stood_still = self.standstill.lost();
        self.budget = 0;
        self.empty_queues(engine)?;
        self.live[self.place].draining.set(1);
        if self.plan.answers {
            self.drain(engine)?;
        }
        self.take_stock(engine.ops());
        self.publish(engine.ops());
        self.live[self.place].snapshot.close(self.snapshot(engine.ops()));
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on(&self, now: Time, end: Time) -> bool {
        self.budget > 0 && !self.stopped() && now < end
    }

    /// A turn while sending, until `due` at most, or shorter: a worker that stood still while it waited is not noticed.
    pub(super) fn turn<E: Engine>(&mut self, engine: &mut E, due: Time) -> io::Result<()> {
        let began = engine.now();
        let due = due.min(began + LONGEST_TURN);
        engine.turn(due, self)?;
        self.standstill.turned(began, due, engine.now());
        Ok(())
    }

    fn flood<E: Engine>(&mut self, engine: &mut E, end: Time) -> io::Result<()> {
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            for _ in 0..self.flows.len() {
                let flow = self.cursor;
                self.advance_cursor();
                if (0..BURST).any(|_| !self.send(engine.ops(), flow, now)) {
                    break;
                }
            }
            self.turn(engine, now)?;
            self.publish(engine.ops());
        }
        Ok(())
    }

    fn keep_window<E: Engine>(&mut self, engine: &mut E, end: Time, window: u32) -> io::Result<()> {
        let mut next_look = engine.now() + self.plan.loss_timeout();
        for flow in 0..self.flows.len() {
            let now = engine.now();
            self.fill_window(engine.ops(), flow, window, now);
        }
        while self.goes_on(engine.now(), end) {
            let until = if self.starved.is_empty() {
                end.min(next_look)
            } else {
                engine.now()
            };
            self.turn(engine, until)?;
            self.publish(engine.ops());
            let now = engine.now();
            for flow in std::mem::take(&mut self.starved) {
                self.fill_window(engine.ops(), flow as usize, window, now);
            }
            if now >= next_look {
                next_look = now + self.plan.loss_timeout();
                for flow in 0..self.flows.len() {
                    self.give_up_if_stalled(flow);
                    self.fill_window(engine.ops(), flow, window, now);
                }
            }
        }
        Ok(())
    }

    fn fill_window(&mut self, ops: &mut Ops, flow: usize, window: u32, now: Time) {
        while self.flows[flow].outstanding() < window && self.budget > 0 {
            if !self.send(ops, flow, now) {
                self.starved.push(flow as u32);
                return;
            }
        }
    }

    fn follow_schedule<E: Engine>(
        &mut self,
        engine: &mut E,
        mut mix: Option<Mix>,
        (start, end): (Time, Time),
        per_second: f64,
    ) -> io::Result<()> {
        let (place, workers) = (self.place, self.plan.workers.len());
        // Under skew each worker is evenly spaced by itself; its place prevents all from starting in one burst.
        let own = mix.as_ref().map_or(1.0, |mix| mix.share() * workers as f64);
        let mut schedule = Schedule::new(start, per_second * own, place, workers);
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            for _ in 0..BURST {
                let due = schedule.due();
                if due > now {
                    break;
                }
                let flow = mix.as_ref().map_or(self.cursor, |mix| mix.turns.current());
                if !self.send(engine.ops(), flow, due) {
                    break;
                }
                match &mut mix {
                    Some(mix) => mix.turns.advance(),
                    None => self.advance_cursor(),
                }
                self.tally.schedule_lag.record(now.since(due).as_nanos() as u64);
                schedule.advance();
            }
            self.turn(engine, end.min(schedule.due()))?;
            self.publish(engine.ops());
        }
        let ended = end.min(engine.now());
        self.tally.counts.unsent = schedule.unissued_before(ended).min(self.budget);
        Ok(())
    }

    /// Flushes the queues until the kernel has accepted everything or the loss timeout expires.
    fn empty_queues<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let give_up = engine.now() + self.plan.loss_timeout();
        while self.queued(engine.ops()) > 0 && engine.now() < give_up {
            engine.turn(engine.now() + QUEUE_LOOK, self)?;
        }
        self.tally.counts.unsent += self.queued(engine.ops());
        Ok(())
    }

    /// Datagrams passed to the engine that the kernel has neither accepted nor refused.
    fn queued(&self, ops: &Ops) -> u64 {
        let counters = ops.counters();
        self.issued() - counters.sent - counters.send_failed.total()
    }

    /// Waits until all answers have arrived, or none has for the loss timeout.
    fn drain<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let mut returned = self.tally.counts.returned;
        let mut give_up = engine.now() + self.plan.loss_timeout();
        let sent = engine.ops().counters().sent;
        while self.tally.counts.returned < sent {
            // After the deadline, poll once more, in case the thread was off its CPU until then.
            let is_last = engine.now() >= give_up;
            engine.turn(give_up.min(engine.now() + LONGEST_TURN), self)?;
            self.publish(engine.ops());
            if self.tally.counts.returned > returned {
                returned = self.tally.counts.returned;
                give_up = engine.now() + self.plan.loss_timeout();
            } else if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Datagrams passed to the engine.
    fn issued(&self) -> u64 {
        self.tally.leases.iter().map(|(sent, _)| sent).sum()
    }

    fn advance_cursor(&mut self) {
        let next = self.cursor + 1;
        self.cursor = if next < self.flows.len() { next } else { 0 };
    }

    /// Settles everything outstanding on a flow without progress since the last check.
    pub(super) fn give_up_if_stalled(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        let before = flow.outstanding();
        flow.give_up_if_stalled();
        self.outstanding -= u64::from(before - flow.outstanding());
    }

    /// Passes one request with intended send time `due` to the engine; returns whether there was room and budget.
    pub(super) fn send(&mut self, ops: &mut Ops, flow: usize, due: Time) -> bool {
        let (flow, protocol) = (&mut self.flows[flow], &self.protocol);
        let (kept, number) = (&mut flow.kept, flow.sent);
        let write = |request: &mut [u8]| protocol.write(kept, request, number, due);
        if self.budget == 0
            || ops
                .send_to(flow.id, None, protocol.request_bytes(), write)
                .is_err()
        {
            return false;
        }
        flow.sent = flow.sent.wrapping_add(1);
        self.tally.leases[flow.lease as usize].0 += 1;
        self.budget -= 1;
        self.outstanding += 1;
        true
    }

    fn take_answer(&mut self, flow: usize, payload: &[u8], now: Time) {
        let flow = &mut self.flows[flow];
        let Some(answer) = self.protocol.read(&flow.kept, payload) else {
            self.tally.counts.corrupted += 1;
            return;
        };
        let before = flow.outstanding();
        let arrival = flow.arrive(answer.number);
        self.outstanding -= u64::from(before - flow.outstanding());
        match arrival {
            Arrival::InOrder => {}
            Arrival::Reordered => self.tally.counts.reordered += 1,
            Arrival::Duplicate => {
                self.tally.counts.duplicated += 1;
                return;
            }
            Arrival::TooLate => {
                self.tally.counts.too_late += 1;
                return;
            }
            Arrival::Unsent => {
                self.tally.counts.corrupted += 1;
                return;
            }
        }
        self.tally.counts.returned += 1;
        self.tally.leases[flow.lease as usize].1 += 1;
        if let Some(error) = answer.error {
            *self.tally.counts.errors.entry(error.to_owned()).or_default() += 1;
        }
        self.tally
            .round_trip
            .record(now.since(answer.due).as_nanos() as u64);
    }

    fn take_stock(&mut self, ops: &Ops) {
        let (counters, counts) = (ops.counters(), &mut self.tally.counts);
        counts.sent = counters.sent;
        counts.sent_bytes = counters.sent * self.protocol.request_bytes() as u64;
        counts.dropped_here = self.flows.iter().map(|flow| ops.dropped(flow.id)).sum();
        if self.plan.answers {
            let missing = counters.sent.saturating_sub(counts.returned);
            counts.lost = missing.saturating_sub(counts.dropped_here);
        }
        counts.refused = by_cause(&counters.send_failed);
        counts.network_errors = by_cause(&counters.errors);
        if let Some(observer) = &self.observer {
            let worker = &self.plan.workers[self.place];
            for flow in &self.flows {
                let planned = worker.leases[flow.lease as usize].landing;
                let ends = (worker.cpu, self.plan.target);
                observer.count(&mut self.tally.alignment, planned, (ops, flow.id), ends);
            }
        }
    }
}

impl<P: DatagramProtocol> Job for Generator<P> {
    type Outcome = Tally;

    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let plan = Arc::clone(&self.plan);
        let buffer = self.receive_buffer();
        for (index, lease) in plan.workers[self.place].leases.iter().enumerate() {
            let take = |socket: UdpSocket| {
                if let Some(bytes) = buffer {
                    group::set_receive_buffer(&socket, bytes)?;
                }
                let id = engine.ops().datagrams(socket)?;
                self.add(id, index);
                Ok(())
            };
            open_sockets(lease, plan.target, take).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Tally> {
        let sent = self.send_all(engine, start);
        // Set even on failure, because other workers may wait for it.
        self.live[self.place].draining.set(1);
        sent.map(|()| self.tally)
    }
}

impl<P: DatagramProtocol> Handler for Generator<P> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        let flow = self.flow_of_slot.get(id.slot()).map(|flow| *flow as usize);
        // Failures are counted by the engine, see `outcome`.
        if let (Event::Datagrams(datagrams), Some(flow)) = (event, flow) {
            for datagram in datagrams {
                self.take_answer(flow, datagram.payload, now);
            }
            if let Pace::Window { datagrams } = self.plan.pace
                && !self.plan.is_skewed()
            {
                self.fill_window(ops, flow, datagrams, now);
            }
        }
    }
}
