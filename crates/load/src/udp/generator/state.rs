//! State of one worker of the generator: its flows, the outcome of each request, and what is published meanwhile.

use crate::alignment::{AlignmentCounts, Observer};
use crate::contact::{Contact, Span};
use crate::live::{LiveWorkers, Snapshot};
use crate::pace::Pace;
use crate::sources::PlannedWorker;
use crate::standstill::Standstill;
use crate::streams::{OfBucket, Part};
use crate::udp::document::Counts;
use crate::udp::flow::Flow;
use crate::udp::metrics::LiveDatagrams;
use crate::udp::plan::UdpPlan;
use crate::udp::protocol::{DatagramProtocol, Read, Received};
use corelane_measure::histogram::Histogram;
use corelane_proto::probe::Arrival;
use corelane_worker::Time;
use corelane_worker::engine::{Engine, Event, FailureCounts, Handler, Id, Ops};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that the kernel counts for a datagram in a receive buffer besides its payload.
const KERNEL_BYTES_A_DATAGRAM: usize = 2_048;

/// Half of the usual receive buffer (`net.core.rmem_default`); the kernel doubles what is set.
const USUAL_BUFFER: usize = 106_496;

/// Datagrams sent since the last answer from which on the server is expected to answer: fewer may all be lost.
const ENOUGH_UNANSWERED: u64 = 20;

/// Longest wait of a turn while sending.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// What the workers of a run share.
pub(in crate::udp) struct Shared<P: DatagramProtocol> {
    pub(in crate::udp) plan: Arc<UdpPlan<P>>,
    /// What requests are made of.
    pub(in crate::udp) requests: Arc<P::Requests>,
    pub(in crate::udp) stop: Arc<AtomicBool>,
    /// What all workers publish, each at its place.
    pub(in crate::udp) live: LiveWorkers<LiveDatagrams>,
    /// Observes where sockets land, if their sources were aligned.
    pub(in crate::udp) observer: Option<Arc<Observer>>,
}

impl<P: DatagramProtocol> Clone for Shared<P> {
    fn clone(&self) -> Self {
        Self {
            plan: Arc::clone(&self.plan),
            requests: Arc::clone(&self.requests),
            stop: Arc::clone(&self.stop),
            live: Arc::clone(&self.live),
            observer: self.observer.clone(),
        }
    }
}

/// One worker's generator.
pub(in crate::udp) struct Generator<P: DatagramProtocol> {
    pub(in crate::udp) shared: Shared<P>,
    /// A copy of the plan's protocol in this worker's memory.
    pub(super) protocol: P,
    /// What the protocol keeps for this worker.
    kept: P::Shared,
    /// This worker's place, which determines its share of the schedule.
    pub(super) place: usize,
    pub(super) flows: Vec<Flow<P::Sent>>,
    /// Flow of each engine slot.
    pub(super) flow_of_slot: Vec<u32>,
    /// Datagrams that may still be sent.
    pub(super) budget: u64,
    pub(super) tally: Tally<P::Counts>,
    /// Bytes of the datagrams that were passed to the engine.
    issued_bytes: u64,
    /// Datagrams sent and not settled, over all flows.
    pub(super) outstanding: u64,
    /// The next flow to send.
    pub(super) cursor: usize,
    /// Flows whose window could not be filled because the arena was full.
    pub(super) starved: Vec<u32>,
    pub(super) standstill: Standstill,
    pub(super) contact: Contact,
    /// Datagrams received at the last look, and sent when the last of them came.
    heard: (u64, u64),
}

/// Counts and times of one worker, reported at its end.
#[derive(Debug, Default)]
pub(in crate::udp) struct Tally<C> {
    pub(in crate::udp) counts: Counts<C>,
    /// By lease: datagrams sent, and answers returned.
    pub(in crate::udp) leases: Vec<(u64, u64)>,
    pub(in crate::udp) alignment: AlignmentCounts,
    /// When the server answered nothing, though it was sent enough.
    pub(in crate::udp) lost: Vec<Span>,
    pub(in crate::udp) round_trip: Histogram,
    pub(in crate::udp) schedule_lag: Histogram,
    pub(in crate::udp) sending: Duration,
    /// Of `sending`, the time in which the worker stood still.
    pub(in crate::udp) stood_still: Duration,
}

/// Which part of the load worker `place` is.
fn part<P>(plan: &UdpPlan<P>, place: usize) -> Part {
    let same = |bucket, workers: &[PlannedWorker]| {
        let same = workers.iter().filter(|worker| worker.bucket == Some(bucket));
        same.count()
    };
    Part {
        place,
        of: plan.workers.len(),
        bucket: plan.workers[place].bucket.map(|bucket| OfBucket {
            bucket,
            place: same(bucket, &plan.workers[..place]),
            of: same(bucket, &plan.workers),
        }),
    }
}

impl<P: DatagramProtocol> Generator<P> {
    /// The generator of worker `place`, without sockets.
    pub(in crate::udp) fn new(place: usize, shared: Shared<P>) -> Self {
        Self {
            kept: P::share(&shared.requests, part(&shared.plan, place)),
            protocol: shared.plan.protocol.clone(),
            place,
            flows: Vec::new(),
            flow_of_slot: Vec::new(),
            budget: shared.plan.budget(place),
            tally: Tally::default(),
            issued_bytes: 0,
            outstanding: 0,
            cursor: 0,
            starved: Vec::new(),
            standstill: Standstill::new(),
            contact: Contact::new(ENOUGH_UNANSWERED),
            heard: (0, 0),
            shared,
        }
    }

    /// The receive buffer that holds the answers to a window, if the usual one might not.
    pub(super) fn receive_buffer(&self) -> Option<usize> {
        let Pace::Window { datagrams } = self.shared.plan.pace else {
            return None;
        };
        // The kernel counts at most twice the bytes of a datagram and its own structures.
        let bytes = datagrams as usize * (2 * self.protocol.largest_bytes() + KERNEL_BYTES_A_DATAGRAM);
        (bytes > USUAL_BUFFER).then_some(bytes)
    }

    /// Adds a socket of a lease to the senders.
    pub(in crate::udp) fn add(&mut self, id: Id, lease: usize) {
        self.flow_of_slot
            .resize(self.flow_of_slot.len().max(id.slot() + 1), 0);
        self.flow_of_slot[id.slot()] = self.flows.len() as u32;
        self.flows.push(Flow::new(id, lease as u32));
        let leases = self.tally.leases.len().max(lease + 1);
        self.tally.leases.resize(leases, (0, 0));
    }

    pub(super) fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on(&self, now: Time, end: Time) -> bool {
        self.budget > 0 && !self.stopped() && now < end
    }

    /// A turn while sending, until `due` at most, or shorter: a worker that stood still while it waited is not noticed.
    pub(super) fn turn<E: Engine>(&mut self, engine: &mut E, due: Time) -> io::Result<()> {
        let began = engine.now();
        let due = due.min(began + LONGEST_TURN);
        engine.turn(due, self)?;
        let now = engine.now();
        self.standstill.turned(began, due, now);
        self.listen(engine.ops(), (began, due), now);
        Ok(())
    }

    /// Looks whether the server answers, after a turn that began and was to end at these times.
    pub(super) fn listen(&mut self, ops: &Ops, turn: (Time, Time), now: Time) {
        let (counts, sent) = (&self.tally.counts, ops.counters().sent);
        let heard = counts.returned + counts.duplicated + counts.corrupted + counts.too_late;
        if heard != self.heard.0 {
            self.heard = (heard, sent);
        }
        let waiting = match self.shared.plan.answers {
            true => sent - self.heard.1,
            false => 0,
        };
        let latency = &self.tally.round_trip;
        self.contact.looked((heard, waiting), turn, now, latency);
    }

    /// Datagrams passed to the engine that the kernel has neither accepted nor refused.
    pub(super) fn queued(&self, ops: &Ops) -> u64 {
        let counters = ops.counters();
        self.issued() - counters.sent - counters.send_failed.total()
    }

    /// Datagrams passed to the engine.
    pub(super) fn issued(&self) -> u64 {
        self.tally.leases.iter().map(|(sent, _)| sent).sum()
    }

    pub(super) fn advance_cursor(&mut self) {
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
        if self.budget == 0 {
            return false;
        }
        let (flow, protocol) = (&mut self.flows[flow], &self.protocol);
        let bytes = protocol.next_bytes(&self.shared.requests, &mut self.kept);
        let (kept, sent, number) = (&mut self.kept, &mut flow.kept, flow.sent);
        let write = |request: &mut [u8]| protocol.write(kept, sent, request, (number, due));
        if ops.send_to(flow.id, None, bytes, write).is_err() {
            return false;
        }
        self.issued_bytes += bytes as u64;
        flow.sent = flow.sent.wrapping_add(1);
        self.tally.leases[flow.lease as usize].0 += 1;
        self.budget -= 1;
        self.outstanding += 1;
        true
    }

    pub(super) fn take_answer(&mut self, flow: usize, payload: &[u8], now: Time) {
        let flow = &mut self.flows[flow];
        let received = Received {
            requests: &*self.shared.requests,
            shared: &mut self.kept,
            sent: &mut flow.kept,
            own: &mut self.tally.counts.own,
            now,
        };
        let (number, answer) = match self.protocol.read(received, payload) {
            Read::Answer(answer) => (answer.number, Some(answer)),
            Read::Unawaited(number) => (number, None),
            Read::Part => return,
            Read::Damaged => {
                self.tally.counts.corrupted += 1;
                return;
            }
        };
        let before = flow.outstanding();
        let arrival = flow.arrive(number, P::ANY_ORDER);
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
        let Some(answer) = answer else {
            self.tally.counts.too_late += 1;
            return;
        };
        self.tally.counts.returned += 1;
        self.tally.leases[flow.lease as usize].1 += 1;
        if let Some(error) = answer.error {
            *self.tally.counts.errors.entry(error.to_owned()).or_default() += 1;
        }
        self.tally
            .round_trip
            .record(now.since(answer.due).as_nanos() as u64);
    }

    pub(super) fn take_stock(&mut self, ops: &Ops) {
        let issued = self.issued();
        let (counters, counts) = (ops.counters(), &mut self.tally.counts);
        counts.sent = counters.sent;
        let sent = u128::from(counters.sent) * u128::from(self.issued_bytes);
        counts.sent_bytes = (sent / u128::from(issued.max(1))) as u64;
        counts.dropped_here = self.flows.iter().map(|flow| ops.dropped(flow.id)).sum();
        if self.shared.plan.answers {
            let missing = counters.sent.saturating_sub(counts.returned);
            counts.lost = missing.saturating_sub(counts.dropped_here);
        }
        counts.refused = by_cause(&counters.send_failed);
        counts.network_errors = by_cause(&counters.errors);
        if let Some(observer) = &self.shared.observer {
            let worker = &self.shared.plan.workers[self.place];
            for flow in &self.flows {
                let planned = worker.leases[flow.lease as usize].landing;
                let ends = (worker.cpu, self.shared.plan.target);
                observer.count(&mut self.tally.alignment, planned, (ops, flow.id), ends);
            }
        }
    }

    pub(super) fn fill_window(&mut self, ops: &mut Ops, flow: usize, window: u32, now: Time) {
        while self.flows[flow].outstanding() < window && self.budget > 0 {
            if !self.send(ops, flow, now) {
                self.starved.push(flow as u32);
                return;
            }
        }
    }

    pub(super) fn publish(&self, ops: &Ops) {
        let live = &self.shared.live[self.place];
        live.counts.sent.set(ops.counters().sent);
        live.counts.returned.set(self.tally.counts.returned);
        live.snapshot.publish(|| self.snapshot(ops));
    }

    /// The live data of this worker.
    pub(super) fn snapshot(&self, ops: &Ops) -> Snapshot {
        let counters = ops.counters();
        let counts = Counts {
            refused: by_cause(&counters.send_failed),
            network_errors: by_cause(&counters.errors),
            ..self.tally.counts.clone()
        };
        Snapshot {
            errors: counts.errors_by_name(),
            times: self.tally.round_trip.clone(),
            ..Snapshot::of(LiveDatagrams::ALL, &self.shared.live[self.place].counts)
        }
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
            if let Pace::Window { datagrams } = self.shared.plan.pace
                && !self.shared.plan.is_skewed()
            {
                self.fill_window(ops, flow, datagrams, now);
            }
        }
    }
}

/// The non-zero causes, with their counts.
fn by_cause(failures: &FailureCounts) -> BTreeMap<String, u64> {
    let occurred = failures.by_cause().into_iter().filter(|(_, count)| *count > 0);
    occurred
        .map(|(cause, count)| (cause.name().to_owned(), count))
        .collect()
}
