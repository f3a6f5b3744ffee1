//! What one worker of the generator does: opens its connections, makes requests as each pool's model and the phases say,
//! waits for the last answers, and tells each request's fate.
//!
//! In: its part of the plan, the times of the phases, events of its engine (`events.rs`). Out: requests through the engine
//! (`asking.rs`, `lifecycle.rs`); at the end an [`Outcome`].

use super::connection::{Connection, State};
use super::group::{Group, Prepared};
use super::phases::PhaseTimes;
use super::plan::HttpPlan;
use super::tls::TlsPool;
use super::tls::session::{Buffers, Session};
use crate::failure::{Failure, Failures};
use crate::showing::{Showing, Shown};
use crate::sources::Release;
use corelane_host::counters::ThreadClock;
use corelane_host::usage::{self, Usage};
use corelane_measure::histogram::Histogram;
use corelane_worker::crew::Job;
use corelane_worker::engine::{Engine, Ops};
use corelane_worker::timers::Wheel;
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requests of a schedule that are begun before arrivals are looked at again.
const BURST: usize = 64;

/// Connections being opened at a time, over all workers, before the run: more of them would overflow the usual backlogs
/// (`net.core.somaxconn` is 4,096), and a connection request that is dropped costs a second.
const OPENING_AT_ONCE: usize = 1_024;

/// How long a turn waits at most, so that a stop is noticed even where nothing else happens.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// Answers gather for this part of the mean latency: what they wait for each other is then a sixteenth of it on average.
const GATHERING_PART: u32 = 8;

/// To sleep for less would cost more than it spares.
const SHORTEST_GATHERING: Duration = Duration::from_micros(5);

/// Answers to be expected in that time; a sleep that gathers fewer spares nothing.
const FEWEST_GATHERED: u128 = 2;

/// The mean latency follows this many answers.
const MEAN_OVER: i64 = 64;

/// How often a ramp of connections is looked at.
const RAMP_LOOK: Duration = Duration::from_millis(10);

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Connections are opened; nothing is asked.
    Opening,
    /// Requests are made.
    Running,
    /// No more requests are made; answers are waited for.
    Draining,
}

/// What anyone may read while a worker runs.
#[derive(Debug, Default)]
pub(super) struct LiveCounters {
    pub(super) open: Counter,
    pub(super) sent: Counter,
    pub(super) ok: Counter,
    pub(super) failed: Counter,
    pub(super) received_bytes: Counter,
    /// 1 when no more requests are made.
    pub(super) draining: Counter,
    pub(super) shown: Showing<Shown>,
}

/// What all workers share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) plan: Arc<HttpPlan>,
    /// The requests of each pool.
    pub(super) requests: Vec<Arc<Vec<Prepared>>>,
    /// How each pool's connections are encrypted, where they are.
    pub(super) tls: Vec<Option<TlsPool>>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) phases: Arc<PhaseTimes>,
}

/// One worker's generator.
pub(super) struct Generator {
    pub(super) plan: Arc<HttpPlan>,
    stop: Arc<AtomicBool>,
    phases: Arc<PhaseTimes>,
    /// Which of them it is in.
    phase: usize,
    live: Arc<CachePadded<LiveCounters>>,
    /// This worker's place among all.
    place: usize,
    pub(super) stage: Stage,
    pub(super) groups: Vec<Group>,
    pub(super) connections: Vec<Connection>,
    /// The session of each connection over TLS; nothing where all are plain.
    pub(super) sessions: Vec<Option<Box<Session>>>,
    pub(super) buffers: Buffers,
    /// Connection of each engine slot.
    pub(super) of_slot: Vec<u32>,
    wheel: Wheel<u32>,
    pub(super) random: fastrand::Rng,
    /// Connections being opened.
    pub(super) opening: usize,
    pub(super) open: u64,
    /// The longest that answers may gather; zero with an open loop among the pools.
    most_gathering: Duration,
    mean_latency: Duration,
    longest_gathering: Duration,
}

/// What one worker has to tell at its end.
pub(super) struct Outcome {
    pub(super) groups: Vec<Group>,
    pub(super) running: Duration,
    /// CPU time while requests were made.
    pub(super) usage: Usage,
    /// How long the worker meanwhile was ready to run and others had its CPU.
    pub(super) waited: Duration,
    pub(super) open: u64,
    /// Open connections on which no request was answered.
    pub(super) unanswered: u64,
    /// The longest that answers gathered.
    pub(super) gathering: Duration,
}

impl Generator {
    /// The generator of worker `place`, with no connection open.
    pub(super) fn new(common: Common, place: usize, live: Arc<CachePadded<LiveCounters>>, now: Time) -> Self {
        let plan = common.plan;
        let (mut groups, mut connections) = (Vec::new(), Vec::new());
        for (pool, share) in plan.workers[place].shares.iter().enumerate() {
            let made = (Arc::clone(&common.requests[pool]), common.tls[pool].as_ref());
            groups.push(Group::new(&plan, pool, place, connections.len(), made));
            connections.extend((0..share.connections()).map(|_| Connection::new(pool as u16)));
        }
        let mut sessions = Vec::new();
        if groups.iter().any(|group| group.encryption.is_some()) {
            sessions.resize_with(connections.len(), || None);
        }
        Self {
            stop: common.stop,
            phases: common.phases,
            phase: 0,
            live,
            place,
            stage: Stage::Opening,
            groups,
            connections,
            sessions,
            buffers: Buffers::default(),
            of_slot: Vec::new(),
            wheel: Wheel::new(now),
            // Requests are drawn alike in every run; workers differ.
            random: fastrand::Rng::with_seed(place as u64),
            opening: 0,
            open: 0,
            most_gathering: if plan.gathers() {
                Duration::from_micros(plan.gather_us.into())
            } else {
                Duration::ZERO
            },
            mean_latency: Duration::ZERO,
            longest_gathering: Duration::ZERO,
            plan,
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn goes_on(&self) -> bool {
        let more = |group: &Group| !group.members.is_empty() && (group.budget > 0 || group.under_way > 0);
        self.phase < self.plan.phases.len() && !self.stopped() && self.groups.iter().any(more)
    }

    /// Begins a phase that began at `since`: schedules start anew.
    fn enter(&mut self, phase: usize, since: Time) {
        self.phase = phase;
        let plan = Arc::clone(&self.plan);
        if let Some(planned) = plan.phases.get(phase) {
            for (pool, group) in self.groups.iter_mut().enumerate() {
                group.enter(&plan, planned, pool, self.place, since);
            }
        }
    }

    /// Ends a phase: what its schedules did not get to is told, not made up for.
    fn leave(&mut self, ended: Time) {
        for group in &mut self.groups {
            if let Some(schedule) = group.schedule.take() {
                group.counts.unsent += schedule.unissued_before(ended).min(group.budget);
            }
        }
    }

    fn follow_phases(&mut self, ops: &mut Ops, now: Time) {
        while self.phase < self.plan.phases.len() && self.phases.began(self.phase + 1) <= now {
            let since = self.phases.began(self.phase + 1);
            self.leave(since);
            self.enter(self.phase + 1, since);
        }
        let plan = Arc::clone(&self.plan);
        let Some(planned) = plan.phases.get(self.phase) else {
            return;
        };
        let level = planned.level(now.since(self.phases.began(self.phase)));
        for index in 0..self.groups.len() {
            let newly = self.groups[index].activate(level);
            for connection in newly {
                match self.connections[connection].state {
                    State::Idle => self.rest(ops, connection, now),
                    State::Closed => self.try_again(connection, now),
                    _ => {}
                }
            }
        }
    }

    /// When something is to be done next, whatever arrives.
    fn next_due(&self, now: Time) -> Time {
        let scheduled = |group: &Group| {
            let schedule = group
                .schedule
                .as_ref()
                .filter(|_| group.budget > 0 && !group.starving);
            schedule.map_or(Time::NEVER, |schedule| schedule.due())
        };
        let scheduled = self.groups.iter().map(scheduled).min().unwrap_or(Time::NEVER);
        let ramps = self
            .plan
            .phases
            .get(self.phase)
            .is_some_and(|phase| phase.from != phase.to);
        let look = now + if ramps { RAMP_LOOK } else { LONGEST_TURN };
        let phase = self.phases.began(self.phase + 1);
        scheduled.min(self.wheel.next_due()).min(phase).min(look)
    }

    /// Begins what is due on the schedules, as far as there are connections.
    fn follow_schedules(&mut self, ops: &mut Ops, now: Time) {
        for index in 0..self.groups.len() {
            for _ in 0..BURST {
                let group = &mut self.groups[index];
                let Some(schedule) = &mut group.schedule else {
                    break;
                };
                let due = schedule.due();
                if due > now || group.budget == 0 {
                    group.starving = false;
                    break;
                }
                let Some(connection) = next_idle(&mut self.connections, &mut group.idle) else {
                    group.starving = true;
                    break;
                };
                schedule.advance();
                group.counts.waited += u64::from(group.starving);
                group.schedule_lag.record(now.since(due).as_nanos() as u64);
                self.begin(ops, connection, due, now);
            }
        }
    }

    /// How long answers gather before they are taken.
    fn gathering(&self) -> Duration {
        let gathering = self.most_gathering.min(self.mean_latency / GATHERING_PART);
        if gathering < SHORTEST_GATHERING {
            return Duration::ZERO;
        }
        let under_way: u64 = self.groups.iter().map(|group| group.under_way).sum();
        if u128::from(under_way) * gathering.as_nanos() < FEWEST_GATHERED * self.mean_latency.as_nanos() {
            return Duration::ZERO;
        }
        gathering
    }

    /// Notes how long an answer took.
    pub(super) fn note_latency(&mut self, latency: Duration) {
        let mean = self.mean_latency.as_nanos() as i64;
        let mean = mean + (latency.as_nanos() as i64 - mean) / MEAN_OVER;
        self.mean_latency = Duration::from_nanos(mean as u64);
    }

    fn fire_timers(&mut self, ops: &mut Ops, now: Time) {
        while let Some(index) = self.wheel.expired(now) {
            self.on_timer(ops, index as usize, now);
        }
    }

    fn on_timer(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        connection.timer = None;
        let wake = connection.wake;
        if wake > now {
            if wake < Time::NEVER {
                self.wake_at(index, wake);
            }
            return;
        }
        match connection.state {
            State::Pausing => self.begin(ops, index, wake, now),
            State::Handshaking => self.handshake_over(ops, index),
            State::Writing => self.write_more(ops, index, now),
            State::AwaitingContinue => self.continue_unasked(ops, index, now),
            State::AwaitingHead => self.give_up(ops, index, Failure::FirstByteTimeout),
            State::AwaitingEnd if connection.held => self.receive_again(ops, index, now),
            State::AwaitingEnd => self.give_up(ops, index, Failure::RequestTimeout),
            State::Lingering => self.close(ops, index, Release::Rests),
            State::Closed => self.reopen(ops, index, wake, now),
            State::Opening | State::Idle | State::Closing => {}
        }
    }

    /// Has a connection looked at again at `wake`. Timers are lazy: one that fires too early is set again, so that a
    /// deadline that moves on with every request costs nothing.
    pub(super) fn wake_at(&mut self, index: usize, wake: Time) {
        let connection = &mut self.connections[index];
        connection.wake = wake;
        if let Some(timer) = connection.timer {
            if connection.fires <= wake {
                return;
            }
            self.wheel.cancel(timer);
        }
        connection.timer = Some(self.wheel.insert(wake, index as u32));
        connection.fires = wake;
    }

    /// Waits until every answer has come, or too long.
    fn drain<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        self.stage = Stage::Draining;
        self.live.draining.set(1);
        let give_up = engine.now() + self.plan.timeouts.drain();
        // Who stops the run is given the answers under way; who stops this wait has waited enough.
        let stopped_before = self.stopped();
        while self.groups.iter().any(|group| group.under_way > 0)
            && engine.now() < give_up
            && (stopped_before || !self.stopped())
        {
            let now = engine.now();
            self.fire_timers(engine.ops(), now);
            let until = give_up.min(self.wheel.next_due()).min(now + LONGEST_TURN);
            engine.turn(until, self)?;
            self.show();
        }
        self.show();
        Ok(())
    }

    fn unanswered(&self) -> u64 {
        let open = |connection: &&Connection| {
            !matches!(
                connection.state,
                State::Closed | State::Opening | State::Handshaking
            )
        };
        let open = self.connections.iter().filter(open);
        open.filter(|connection| connection.served == 0).count() as u64
    }

    fn show(&self) {
        let sum = |count: fn(&Group) -> u64| self.groups.iter().map(count).sum();
        self.live.open.set(self.open);
        self.live.sent.set(sum(|group| group.counts.sent));
        self.live.ok.set(sum(|group| group.counts.ok));
        self.live.failed.set(sum(|group| group.counts.failures.total()));
        self.live
            .received_bytes
            .set(sum(|group| group.counts.bytes.received));
        self.live.shown.show(|| self.shown());
    }

    /// What one who watches sees.
    fn shown(&self) -> Shown {
        let (mut times, mut failures, mut not_opened) =
            (Histogram::new(), Failures::default(), Failures::default());
        for group in &self.groups {
            times.merge(&group.latency);
            failures.add(&group.counts.failures);
            not_opened.add(&group.counts.connections.failed);
        }
        Shown {
            times: Some(times),
            failures,
            not_opened,
        }
    }
}

impl Job for Generator {
    type Outcome = Outcome;

    /// Opens every connection, or finds out why not.
    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()> {
        let at_once = (OPENING_AT_ONCE / self.plan.workers.len()).max(16);
        let mut next = 0;
        while (next < self.connections.len() || self.opening > 0) && !self.stopped() {
            let now = engine.now();
            while next < self.connections.len() && self.opening < at_once {
                self.connect(engine.ops(), next, now);
                next += 1;
            }
            self.fire_timers(engine.ops(), now);
            engine.turn(self.wheel.next_due().min(now + LONGEST_TURN), self)?;
            self.show();
        }
        Ok(())
    }

    /// Makes requests from `start` until the phases' end or a stop, waits for the last answers, and tells what became of it
    /// all.
    fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Outcome> {
        while engine.now() < start && !self.stopped() {
            engine.turn(start, &mut self)?;
        }
        let usage = usage::of_thread();
        let clock = ThreadClock::of_this_thread();
        let before = clock.read().unwrap_or_default();
        self.stage = Stage::Running;
        self.enter(0, start);
        let level = self
            .plan
            .phases
            .first()
            .map_or(1.0, |phase| phase.level(Duration::ZERO));
        for group in &mut self.groups {
            group.activate(level);
        }
        for index in 0..self.connections.len() {
            self.first(engine.ops(), index, start);
        }
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
            self.show();
        }
        let waited_ns = clock.read().unwrap_or_default().since(&before).waited_ns;
        let ended = engine.now().min(self.phases.end());
        self.leave(ended);
        self.drain(engine)?;
        Ok(Outcome {
            running: ended.since(start),
            usage: usage::of_thread().since(&usage),
            waited: Duration::from_nanos(waited_ns),
            open: self.open,
            unanswered: self.unanswered(),
            gathering: self.longest_gathering,
            groups: self.groups,
        })
    }
}

/// The idle connection that rested longest. Those that ended meanwhile are passed over.
fn next_idle(connections: &mut [Connection], idle: &mut std::collections::VecDeque<u32>) -> Option<usize> {
    while let Some(index) = idle.pop_front() {
        let connection = &mut connections[index as usize];
        connection.queued = false;
        if connection.state == State::Idle {
            return Some(index as usize);
        }
    }
    None
}
