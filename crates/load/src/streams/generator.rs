//! One worker of the generator: opens its connections, makes requests according to pools and phases, and waits for the
//! last answers.
//!
//! In: its part of the plan, the phase times, and events of its engine, which are passed to the connections
//! (`client.rs`). Out: at the end, an [`Outcome`].

use super::busy::Busy;
use super::client::Client;
use super::counts::{Counts, OwnCounts};
use super::event::Input;
use super::group::Group;
use super::metrics::LiveStreams;
use super::phases::PhaseTimes;
use super::plan::StreamPlan;
use super::protocol::{StreamProtocol, Terms, Traffic};
use super::quota::Quotas;
use super::slot::{Shared, Slot, Stage};
use crate::alignment::Observer;
use crate::live::{LiveWorker, LiveWorkers, Snapshot};
use crate::silence::Silence;
use crate::standstill::Standstill;
use corelane_host::counters::ThreadClock;
use corelane_host::usage::{self, Usage};
use corelane_measure::counters::Counters;
use corelane_worker::Time;
use corelane_worker::crew::Job;
use corelane_worker::engine::{Engine, Event, Handler, Id, Ops};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Scheduled requests begun before the next poll for received data.
const BURST: usize = 64;

/// Connections being opened at a time, over all workers, before the run: more would overflow common backlogs
/// (`net.core.somaxconn` is 4,096), and a dropped SYN costs one second.
const OPENING_AT_ONCE: usize = 1_024;

/// How many times as long as the wait for one answer the last answers are awaited in all: a server that answers slowly
/// must not delay the end for ever.
const MOST_DRAINS: u32 = 10;

/// Longest wait of a turn, so that a stop is noticed when idle.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// Answers are batched for this fraction of the mean latency; this adds a sixteenth of it on average.
const GATHERING_PART: u32 = 8;

/// Shorter sleeps cost more than they save.
const SHORTEST_GATHERING: Duration = Duration::from_micros(5);

/// Minimum number of answers expected in that time; a sleep that batches fewer saves nothing.
const FEWEST_GATHERED: u128 = 2;

/// Interval between adjustments of a connection ramp.
const RAMP_LOOK: Duration = Duration::from_millis(10);

/// State shared by all workers.
pub(crate) struct Common<P: StreamProtocol> {
    pub(crate) plan: StreamPlan<P>,
    /// By pool.
    pub(crate) terms: Vec<Arc<Terms<P>>>,
    /// Observes where connections land, if their sources were aligned.
    pub(crate) observer: Option<Arc<Observer>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) phases: PhaseTimes,
    /// The counts by which phases end, if any does.
    pub(crate) quotas: Option<Arc<Quotas>>,
}

/// One worker's generator.
pub(crate) struct Generator<P: StreamProtocol> {
    common: Arc<Common<P>>,
    /// The current phase.
    phase: usize,
    /// Live counters of all workers; this one's at its place.
    live: LiveWorkers<LiveStreams>,
    /// This worker's place among all.
    place: usize,
    groups: Vec<Group<P>>,
    pub(crate) slots: Vec<Slot<P>>,
    shared: Shared,
    /// The longest batching time; zero if any pool is open loop.
    most_gathering: Duration,
    longest_gathering: Duration,
}

/// The results of one worker.
pub(crate) struct Outcome<P: StreamProtocol> {
    pub(crate) groups: Vec<Group<P>>,
    /// When the run began.
    pub(crate) start: Time,
    pub(crate) running: Duration,
    /// CPU time while requests were made.
    pub(crate) usage: Usage,
    /// Time that the worker was runnable meanwhile while other threads had its CPU.
    pub(crate) waited: Duration,
    /// Of `running`, the time in which the worker stood still.
    pub(crate) stood_still: Duration,
    /// The longest batching time.
    pub(crate) gathering: Duration,
}

impl<P: StreamProtocol> Generator<P> {
    /// The generator of worker `place`, without open connections.
    pub(crate) fn new(
        common: Arc<Common<P>>,
        place: usize,
        live: LiveWorkers<LiveStreams>,
        now: Time,
    ) -> Self {
        let plan = &common.plan;
        let (mut groups, mut slots) = (Vec::new(), Vec::new());
        for (pool, terms) in common.terms.iter().enumerate() {
            let mut group = Group::new(plan, terms, pool, place, slots.len());
            (group.observer, group.quotas) = (common.observer.clone(), common.quotas.clone());
            slots.resize_with(group.members.end, || Slot::new(pool as u16));
            groups.push(group);
        }
        let most_gathering = if plan.gathers() {
            Duration::from_micros(plan.gather_us.into())
        } else {
            Duration::ZERO
        };
        Self {
            common,
            phase: 0,
            live,
            place,
            groups,
            slots,
            shared: Shared::new(place, now),
            most_gathering,
            longest_gathering: Duration::ZERO,
        }
    }

    /// A connection, to handle an event.
    fn client<'a>(&'a mut self, ops: &'a mut Ops, index: usize, now: Time) -> Client<'a, P> {
        let slot = &mut self.slots[index];
        Client {
            ops,
            now,
            index,
            group: &mut self.groups[usize::from(slot.group)],
            slot,
            shared: &mut self.shared,
        }
    }

    fn live(&self) -> &LiveWorker<LiveStreams> {
        &self.live[self.place]
    }

    fn stopped(&self) -> bool {
        self.common.stop.load(Ordering::Relaxed)
    }

    /// A count over all pools.
    fn total(&self, count: fn(&Counts<P::Counts>) -> u64) -> u64 {
        let groups = self.groups.iter();
        groups.map(|group| count(&group.tally.counts)).sum()
    }

    fn under_way(&self) -> u64 {
        self.total(|counts| counts.requests.unfinished)
    }

    fn answered(&self) -> u64 {
        self.total(|counts| counts.requests.ok)
    }

    fn goes_on(&self) -> bool {
        let more = |group: &Group<P>| {
            !group.members.is_empty() && (group.budget > 0 || group.tally.counts.requests.unfinished > 0)
        };
        self.phase < self.common.plan.phases.len() && !self.stopped() && self.groups.iter().any(more)
    }

    /// Enters a phase that began at `since`; schedules restart.
    fn enter(&mut self, phase: usize, since: Time) {
        self.phase = phase;
        for (pool, group) in self.groups.iter_mut().enumerate() {
            group.enter(&self.common.plan, phase, pool, self.place, since);
        }
    }

    fn leave(&mut self, ended: Time) {
        self.groups.iter_mut().for_each(|group| group.leave(ended));
    }

    /// Looks whether the servers answer, after a turn that began and was to end at these times.
    fn look(&mut self, turn: (Time, Time), now: Time) {
        self.groups.iter_mut().for_each(|group| group.look(turn, now));
    }

    fn follow_phases(&mut self, ops: &mut Ops, now: Time) {
        while self.phase < self.common.plan.phases.len() && self.common.phases.began(self.phase + 1) <= now {
            let since = self.common.phases.began(self.phase + 1);
            self.leave(since);
            self.enter(self.phase + 1, since);
        }
        let Some(planned) = self.common.plan.phases.get(self.phase) else {
            return;
        };
        let level = planned.level(now.since(self.common.phases.began(self.phase)));
        for index in 0..self.groups.len() {
            for connection in self.groups[index].activate(level) {
                let mut client = self.client(ops, connection, now);
                if client.slot.connection.is_idle() {
                    client.rest();
                } else if client.slot.connection.is_closed() {
                    client.retry(now);
                }
            }
        }
    }

    /// When the next action is due, regardless of received data.
    fn next_due(&self, now: Time) -> Time {
        let ready = self
            .groups
            .iter()
            .filter(|group| group.may_begin() && !group.busy.lasts());
        let scheduled = ready.filter_map(|group| Some(group.schedule.as_ref()?.due()));
        let scheduled = scheduled.min().unwrap_or(Time::NEVER);
        let phase = self.common.plan.phases.get(self.phase);
        let ramps = phase.is_some_and(|phase| phase.from != phase.to);
        let look = now + if ramps { RAMP_LOOK } else { LONGEST_TURN };
        let phase = self.common.phases.began(self.phase + 1);
        scheduled.min(self.shared.wheel.next_due()).min(phase).min(look)
    }

    /// Issues the due requests of the schedules while connections are available.
    fn follow_schedules(&mut self, ops: &mut Ops, now: Time) {
        for index in 0..self.groups.len() {
            for _ in 0..BURST {
                let group = &mut self.groups[index];
                let may_begin = group.may_begin();
                let Some(schedule) = &mut group.schedule else {
                    break;
                };
                let due = schedule.due();
                if due > now || !may_begin {
                    group.busy = Busy::NOT;
                    break;
                }
                let first = group.members.start;
                let idle = std::iter::from_fn(|| group.idle.pop()).map(|place| first + place);
                let terms = &group.terms;
                let Some(connection) = { idle }.find(|index| self.slots[*index].connection.has_room(terms))
                else {
                    let Some(refusal) = group.contact.refusal() else {
                        group.busy.found(now);
                        break;
                    };
                    group.busy = Busy::NOT;
                    schedule.advance();
                    self.client(ops, first, now).fail(refusal);
                    continue;
                };
                schedule.advance();
                group.tally.counts.requests.waited_for_connection += u64::from(group.busy.delayed(due));
                let lag = now.since(due).as_nanos() as u64;
                group.tally.histograms.schedule_lag.record(lag);
                let mut client = self.client(ops, connection, now);
                client.begin(due);
                // For more in a pipeline; or because another worker took the last request of the phase.
                if client.slot.connection.has_room(&client.group.terms) {
                    client.rest();
                }
            }
        }
    }

    /// How long answers are batched before they are processed.
    fn gathering(&self) -> Duration {
        let mean = self.shared.mean_latency;
        let gathering = self.most_gathering.min(mean / GATHERING_PART);
        let expected = || u128::from(self.under_way()) * gathering.as_nanos();
        match gathering < SHORTEST_GATHERING || expected() < FEWEST_GATHERED * mean.as_nanos() {
            true => Duration::ZERO,
            false => gathering,
        }
    }

    fn fire_timers(&mut self, ops: &mut Ops, now: Time) {
        while let Some(index) = self.shared.wheel.expired(now) {
            self.client(ops, index as usize, now).fired();
        }
    }

    /// Waits for all pending answers, or until none has come for a time, and [`MOST_DRAINS`] times as long at most. The end
    /// of all transfers, or of a run that was stopped, is awaited for that time.
    fn drain<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        self.shared.stage = Stage::Draining;
        let now = engine.now();
        self.step_all(engine.ops(), now, || Input::Finish);
        if !P::Traffic::LASTS {
            self.live().draining.set(1);
        }
        let limit = Duration::from_secs_f64(self.common.plan.timeouts.drain_s);
        let (mut silence, give_up) = (Silence::new(limit), now + limit.saturating_mul(MOST_DRAINS));
        let mut answered = self.answered();
        // A stop during the run still waits for pending answers; a stop during this wait ends it.
        let stopped_before = self.stopped();
        while self.under_way() > 0 && !silence.is_over() && (stopped_before || !self.stopped()) {
            let now = engine.now();
            self.fire_timers(engine.ops(), now);
            let until = (now + silence.look()).min(self.shared.wheel.next_due());
            engine.turn(until, self)?;
            self.publish();
            let turned = engine.now();
            silence.looked(turned.since(now));
            self.look((now, until), turned);
            let may_go_on = !P::Traffic::LASTS && !stopped_before && engine.now() < give_up;
            if may_go_on && self.answered() > answered {
                answered = self.answered();
                silence.broken();
            }
        }
        self.publish();
        self.live().draining.set(1);
        Ok(())
    }

    /// Passes the same event to every connection.
    fn step_all(&mut self, ops: &mut Ops, now: Time, input: fn() -> Input<'static, 'static, P::Request>) {
        for index in 0..self.slots.len() {
            self.client(ops, index, now).step(input());
        }
    }

    /// Records the final state at the end of the run: open connections and TLS.
    fn close_accounts(&mut self, ops: &mut Ops, now: Time) {
        self.step_all(ops, now, || Input::Left { lasted: true });
        for index in 0..self.slots.len() {
            self.client(ops, index, now).uncount_queued();
        }
        for slot in &self.slots {
            let counts = &mut self.groups[usize::from(slot.group)].tally.counts.connections;
            counts.open_at_end += u64::from(slot.connection.is_open());
            counts.open_unanswered += u64::from(slot.connection.is_unanswered());
        }
        for group in &mut self.groups {
            group.tally.counts.tls = group.encryption.take().map(|encryption| encryption.counted());
        }
    }

    fn publish(&mut self) {
        self.publish_counts();
        if let Some(quotas) = &self.common.quotas {
            quotas.ended(std::mem::take(&mut self.shared.settled));
        }
        self.live().snapshot.publish(|| self.snapshot());
    }

    fn publish_counts(&self) {
        let live = &self.live().counts;
        live.open.set(self.shared.open);
        live.opened.set(self.total(|counts| counts.connections.opened));
        live.sent.set(self.total(|counts| counts.requests.sent));
        live.ok.set(self.answered());
        live.failed.set(self.total(|counts| counts.requests.failed));
        live.sent_bytes.set(self.total(|counts| counts.bytes.sent));
        live.received_bytes
            .set(self.total(|counts| counts.bytes.received));
        let (groups, classes) = (self.groups.iter(), live.classes());
        let statuses = groups.filter_map(|group| group.tally.counts.requests.own.by_class());
        let statuses = classes.into_iter().zip(<[u64; 4]>::sum(statuses));
        statuses.for_each(|(live, count)| live.set(count));
        let stalled = self.groups.iter().map(|group| P::Traffic::stalled(&group.shared));
        live.stalled.set(stalled.sum());
    }

    /// The live data of this worker, with the counts that it has published.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(P::Traffic::COUNTED, &self.live().counts);
        for Group { tally, .. } in &self.groups {
            snapshot.times.add(P::Traffic::times(&tally.histograms));
            snapshot.errors.add(&tally.counts.requests.own.errors());
            snapshot.failures.add(&tally.counts.requests.by_cause);
            snapshot.not_opened.add(&tally.counts.connections.failed);
        }
        snapshot
    }
}

impl<P: StreamProtocol> Job for Generator<P> {
    type Outcome = Outcome<P>;

    /// Opens all connections, or records why they cannot be opened.
    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let at_once = (OPENING_AT_ONCE / self.common.plan.workers.len()).max(16);
        let mut next = 0;
        while (next < self.slots.len() || self.shared.opening > 0) && !self.stopped() {
            let now = engine.now();
            while next < self.slots.len() && self.shared.opening < at_once {
                self.client(engine.ops(), next, now).connect(None);
                next += 1;
            }
            self.fire_timers(engine.ops(), now);
            engine.turn(self.shared.wheel.next_due().min(now + LONGEST_TURN), self)?;
            self.publish();
        }
        Ok(())
    }

    /// Makes requests from `start` until the phases end or a stop, waits for the last answers, and returns the results.
    fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Outcome<P>> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, &mut self)?;
        }
        let usage = usage::of_thread();
        let clock = ThreadClock::of_this_thread();
        let before = clock.read().unwrap_or_default();
        self.shared.stage = Stage::Running;
        self.enter(0, start);
        let first = self.common.plan.phases.first();
        let level = first.map_or(1.0, |phase| phase.level(Duration::ZERO));
        for group in &mut self.groups {
            group.activate(level);
        }
        for index in 0..self.slots.len() {
            self.client(engine.ops(), index, start).first();
        }
        let mut standstill = Standstill::new();
        standstill.begin(engine.now());
        while self.goes_on() {
            let now = engine.now();
            self.follow_phases(engine.ops(), now);
            self.follow_schedules(engine.ops(), now);
            self.fire_timers(engine.ops(), now);
            let until = self.next_due(now);
            let gathering = self.gathering();
            self.longest_gathering = self.longest_gathering.max(gathering);
            engine.ops().gather(gathering);
            engine.turn(until, &mut self)?;
            let turned = engine.now();
            standstill.turned(now, until, turned);
            self.look((now, until), turned);
            self.publish();
        }
        let waited_ns = clock.read().unwrap_or_default().since(&before).waited_ns;
        let ended = engine.now().min(self.common.phases.end());
        self.leave(ended);
        self.drain(engine)?;
        let now = engine.now();
        engine.finish();
        self.close_accounts(engine.ops(), now);
        self.publish_counts();
        self.live().snapshot.close(self.snapshot());
        Ok(Outcome {
            start,
            running: ended.since(start),
            usage: usage::of_thread().since(&usage),
            waited: Duration::from_nanos(waited_ns),
            stood_still: standstill.lost(),
            gathering: self.longest_gathering,
            groups: self.groups,
        })
    }
}

impl<P: StreamProtocol> Handler for Generator<P> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        if let Some(&index) = self.shared.by_id.get(id) {
            self.client(ops, index as usize, now).handle(event);
        }
    }
}
