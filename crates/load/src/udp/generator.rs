//! What one worker of the generator does: sends as its pace says, takes in answers, and counts the outcome of each request.
//!
//! In: a lease of sources, a start time, events of its engine. Out: requests of its protocol through the engine; at the end an [`Outcome`].

use super::flow::Flow;
use super::loaded::Counts;
use super::mix::Mix;
use super::plan::UdpPlan;
use super::protocol::DatagramProtocol;
use crate::pace::{Pace, Schedule};
use crate::showing::{Showing, Shown};
use corelane_measure::histogram::Histogram;
use corelane_proto::probe::Arrival;
use corelane_worker::engine::{Engine, Event, FailureCounts, Handler, Id, Ops};
use corelane_worker::{CachePadded, Counter, Time};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Datagrams that one socket sends before the next one's turn, when nothing else paces it: one `sendmmsg`, and at most one
/// `UDP_SEGMENT` send (`UDP_MAX_SEGMENTS` is 64 in older kernels).
const BURST: u32 = 64;

/// How long a turn waits while the kernel does not take what is queued.
const QUEUE_LOOK: Duration = Duration::from_millis(1);

/// What anyone may read while a worker runs.
#[derive(Debug, Default)]
pub(super) struct LiveCounters {
    pub(super) sent: Counter,
    pub(super) returned: Counter,
    /// 1 once nothing more will be sent.
    pub(super) sending_ended: Counter,
    pub(super) shown: Showing<Shown>,
}

/// One worker's generator.
pub(super) struct Generator<P: DatagramProtocol> {
    pub(super) plan: Arc<UdpPlan<P>>,
    /// The plan's, in memory of this worker.
    pub(super) protocol: P,
    pub(super) stop: Arc<AtomicBool>,
    /// What all workers publish, this one at its place.
    pub(super) lives: Arc<[CachePadded<LiveCounters>]>,
    /// This worker's place among all, which its share of the schedule depends on.
    pub(super) place: usize,
    pub(super) flows: Vec<Flow<P::Sent>>,
    /// Flow of each engine slot.
    pub(super) flow_of_slot: Vec<u32>,
    pub(super) leases: Vec<LeaseCounts>,
    /// Datagrams that may still be sent.
    pub(super) budget: u64,
    pub(super) counts: Counts,
    pub(super) round_trip: Histogram,
    pub(super) schedule_lag: Histogram,
    /// Datagrams sent and not settled, over all flows.
    pub(super) outstanding: u64,
    /// Whose turn it is.
    pub(super) cursor: usize,
    /// Flows whose window could not be filled because the arena was full.
    pub(super) starved: Vec<u32>,
}

/// Counts of one lease.
#[derive(Debug, Clone, Default)]
pub(super) struct LeaseCounts {
    pub(super) sent: u64,
    pub(super) returned: u64,
}

/// What one worker has to tell at its end.
pub(super) struct Outcome {
    pub(super) counts: Counts,
    pub(super) leases: Vec<LeaseCounts>,
    pub(super) round_trip: Histogram,
    pub(super) schedule_lag: Histogram,
    pub(super) sending: Duration,
}

impl<P: DatagramProtocol> Generator<P> {
    /// Sends from `start` until the plan's end or a stop, waits for the last answers, and tells what became of it all.
    pub(super) fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Outcome> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, &mut self)?;
        }
        let end = self
            .plan
            .until
            .duration_s
            .map(|seconds| start + Duration::from_secs_f64(seconds));
        let mix = Mix::new(&self.plan, self.place, &self.lives);
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
        let sending = engine.now().since(start);
        self.budget = 0;
        self.empty_queues(engine)?;
        self.lives[self.place].sending_ended.set(1);
        if self.plan.answers {
            self.drain(engine)?;
        }
        Ok(self.outcome(engine, sending))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on(&self, now: Time, end: Option<Time>) -> bool {
        self.budget > 0 && !self.stopped() && end.is_none_or(|end| now < end)
    }

    fn flood<E: Engine>(&mut self, engine: &mut E, end: Option<Time>) -> io::Result<()> {
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            for _ in 0..self.flows.len() {
                let flow = self.cursor;
                self.advance_cursor();
                if (0..BURST).any(|_| !self.send(engine.ops(), flow, now)) {
                    break;
                }
            }
            engine.turn(now, self)?;
            self.show(engine.ops());
        }
        Ok(())
    }

    fn keep_window<E: Engine>(&mut self, engine: &mut E, end: Option<Time>, window: u32) -> io::Result<()> {
        let mut next_look = engine.now() + self.plan.loss_timeout();
        for flow in 0..self.flows.len() {
            let now = engine.now();
            self.fill_window(engine.ops(), flow, window, now);
        }
        while self.goes_on(engine.now(), end) {
            let until = end.map_or(next_look, |end| end.min(next_look));
            let until = if self.starved.is_empty() {
                until
            } else {
                engine.now()
            };
            engine.turn(until, self)?;
            self.show(engine.ops());
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
        (start, end): (Time, Option<Time>),
        per_second: f64,
    ) -> io::Result<()> {
        let (place, workers) = (self.place, self.plan.workers.len());
        let mut schedule = match &mix {
            Some(mix) => Schedule::of_share(start, per_second, mix.share(), place, workers),
            None => Schedule::new(start, per_second, place, workers),
        };
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
                self.schedule_lag.record(now.since(due).as_nanos() as u64);
                schedule.advance();
            }
            let until = end.map_or(schedule.due(), |end| end.min(schedule.due()));
            engine.turn(until, self)?;
            self.show(engine.ops());
        }
        let now = engine.now();
        let ended = end.map_or(now, |end| end.min(now));
        self.counts.unsent = schedule.unissued_before(ended).min(self.budget);
        Ok(())
    }

    /// Lets the kernel take what is queued: all of it, or what it takes within the loss timeout.
    fn empty_queues<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let give_up = engine.now() + self.plan.loss_timeout();
        while self.queued(engine.ops()) > 0 && engine.now() < give_up {
            engine.turn(engine.now() + QUEUE_LOOK, self)?;
        }
        self.counts.unsent += self.queued(engine.ops());
        Ok(())
    }

    /// Datagrams handed to the engine that the kernel has neither taken nor refused.
    fn queued(&self, ops: &Ops) -> u64 {
        let counters = ops.counters();
        self.issued() - counters.sent - counters.send_failed.total()
    }

    /// Waits until everything has come back, or nothing has for the loss timeout.
    fn drain<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let mut returned = self.counts.returned;
        let mut give_up = engine.now() + self.plan.loss_timeout();
        let sent = engine.ops().counters().sent;
        while self.counts.returned < sent {
            // Who was kept from its CPU until then looks once more.
            let is_last = engine.now() >= give_up;
            engine.turn(give_up, self)?;
            if self.counts.returned > returned {
                returned = self.counts.returned;
                give_up = engine.now() + self.plan.loss_timeout();
            } else if is_last {
                break;
            }
        }
        self.show(engine.ops());
        Ok(())
    }

    /// Datagrams handed to the engine.
    fn issued(&self) -> u64 {
        self.leases.iter().map(|lease| lease.sent).sum()
    }

    fn advance_cursor(&mut self) {
        let next = self.cursor + 1;
        self.cursor = if next < self.flows.len() { next } else { 0 };
    }

    /// Gives up what a flow has outstanding since the last look without any progress.
    pub(super) fn give_up_if_stalled(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        let before = flow.outstanding();
        flow.give_up_if_stalled();
        self.outstanding -= u64::from(before - flow.outstanding());
    }

    /// Hands one request with the intended send time `due` to the engine; says whether there was room and budget.
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
        self.leases[flow.lease as usize].sent += 1;
        self.budget -= 1;
        self.outstanding += 1;
        true
    }

    pub(super) fn show(&self, ops: &Ops) {
        let live = &self.lives[self.place];
        live.sent.set(ops.counters().sent);
        live.returned.set(self.counts.returned);
        live.shown.show(|| Shown {
            times: Some(self.round_trip.clone()),
            ..Shown::default()
        });
    }

    fn take_answer(&mut self, flow: usize, payload: &[u8], now: Time) {
        let flow = &mut self.flows[flow];
        let Some(answer) = self.protocol.read(&flow.kept, payload) else {
            self.counts.corrupted += 1;
            return;
        };
        let before = flow.outstanding();
        let arrival = flow.arrive(answer.number);
        self.outstanding -= u64::from(before - flow.outstanding());
        match arrival {
            Arrival::InOrder => {}
            Arrival::Reordered => self.counts.reordered += 1,
            Arrival::Duplicate => {
                self.counts.duplicated += 1;
                return;
            }
            Arrival::TooLate => {
                self.counts.too_late += 1;
                return;
            }
            Arrival::Unsent => {
                self.counts.corrupted += 1;
                return;
            }
        }
        self.counts.returned += 1;
        self.leases[flow.lease as usize].returned += 1;
        if let Some(error) = answer.error {
            *self.counts.errors.entry(error.to_owned()).or_default() += 1;
        }
        self.round_trip.record(now.since(answer.due).as_nanos() as u64);
    }

    fn outcome<E: Engine>(mut self, engine: &mut E, sending: Duration) -> Outcome {
        let counters = engine.ops().counters();
        self.counts.sent = counters.sent;
        self.counts.sent_bytes = counters.sent * self.protocol.request_bytes() as u64;
        if self.plan.answers {
            self.counts.lost = counters.sent.saturating_sub(self.counts.returned);
        }
        self.counts.refused = by_cause(&counters.send_failed);
        self.counts.network_errors = by_cause(&counters.errors);
        Outcome {
            counts: self.counts,
            leases: self.leases,
            round_trip: self.round_trip,
            schedule_lag: self.schedule_lag,
            sending,
        }
    }
}

/// The causes that occurred, with their counts.
fn by_cause(failures: &FailureCounts) -> BTreeMap<String, u64> {
    let occurred = failures.by_cause().into_iter().filter(|(_, count)| *count > 0);
    occurred.map(|(cause, count)| (cause.to_owned(), count)).collect()
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
