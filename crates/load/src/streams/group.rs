//! One worker's part of one pool: its terms, schedule, ports, counts and histograms.

use super::busy::Busy;
use super::counts::Tally;
use super::linger::Linger;
use super::plan::{Model, StreamPlan};
use super::protocol::{OfBucket, Part, StreamProtocol, Terms, Traffic};
use super::quota::Quotas;
use super::tls::Encryption;
use crate::account::NORMAL_LAG;
use crate::alignment::Observer;
use crate::contact::Contact;
use crate::pace::{Ramp, Schedule};
use corelane_rss::plan::Landing;
use corelane_worker::Time;
use corelane_worker::engine::{Id, Ops};
use corelane_worker::outgoing::{PortPool, Source};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// One worker's part of one pool.
pub(crate) struct Group<P: StreamProtocol> {
    pub(crate) terms: Arc<Terms<P>>,
    /// TLS of its connections, if any.
    pub(crate) encryption: Option<Box<Encryption>>,
    /// Its connections among the worker's.
    pub(crate) members: Range<usize>,
    /// Number of active connections (the first ones); changed by a ramp.
    active: usize,
    /// Set when an open-loop run starts.
    pub(crate) schedule: Option<Schedule>,
    /// Whether its server is there.
    pub(crate) contact: Contact,
    /// When the schedule waited for a connection.
    pub(crate) busy: Busy,
    pub(crate) idle: IdleQueue,
    pub(crate) ports: PortPool,
    pub(crate) linger: Linger,
    /// The planned landing of each lease.
    planned: Vec<Landing>,
    /// The CPU of the worker.
    cpu: u32,
    /// Observes where its connections land, if that is compared.
    pub(crate) observer: Option<Arc<Observer>>,
    /// Requests that may still be begun.
    pub(crate) budget: u64,
    /// The counts by which phases end, if any does.
    pub(crate) quotas: Option<Arc<Quotas>>,
    /// The current phase.
    phase: usize,
    /// `counts.requests.unfinished` are those in progress.
    pub(crate) tally: Tally<P::Counts>,
    pub(crate) shared: P::Shared,
}

/// Idle connections, longest idle first. Connections that have ended meanwhile stay in the queue.
#[derive(Debug, Default)]
pub(crate) struct IdleQueue {
    order: VecDeque<u32>,
    /// Whether a connection is in the queue, by index.
    listed: Vec<bool>,
}

impl IdleQueue {
    /// Appends a connection, unless it is in the queue.
    pub(crate) fn push(&mut self, index: usize) {
        if self.listed.len() <= index {
            self.listed.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.listed[index], true) {
            self.order.push_back(index as u32);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        let index = self.order.pop_front()? as usize;
        self.listed[index] = false;
        Some(index)
    }
}

impl<P: StreamProtocol> Group<P> {
    /// The part of `pool` for worker `place` of the plan; its connections start at index `first` of the worker.
    pub(crate) fn new(
        plan: &StreamPlan<P>,
        terms: &Arc<Terms<P>>,
        pool: usize,
        place: usize,
        first: usize,
    ) -> Self {
        let share = &plan.workers[place].shares[pool];
        let mut tally = Tally::default();
        tally.counts.connections.asked = share.connections() as u64;
        let connections = share.connections();
        let tls = terms.tls.as_ref().zip(terms.pool.tls.as_ref());
        Self {
            encryption: tls
                .map(|(settings, trust)| Box::new(Encryption::new(settings, connections, !trust.insecure))),
            terms: Arc::clone(terms),
            members: first..first + connections,
            active: 0,
            schedule: None,
            contact: Contact::new(1),
            busy: Busy::NOT,
            idle: IdleQueue::default(),
            ports: PortPool::new(&share.leases),
            linger: Linger::default(),
            planned: share.leases.iter().map(|lease| lease.landing).collect(),
            cpu: plan.workers[place].cpu,
            observer: None,
            budget: budget(plan, pool, place),
            quotas: None,
            phase: 0,
            tally,
            shared: P::share(&terms.requests, part(plan, pool, place)),
        }
    }

    /// Compares where a connection lands with the plan.
    pub(crate) fn observe(&mut self, ops: &Ops, id: Option<Id>, source: Option<Source>) {
        let target = self.terms.pool.target.address();
        if let (Some(observer), Some(id), Some(source), Some(target)) = (&self.observer, id, source, target) {
            let (alignment, planned) = (&mut self.tally.counts.alignment, self.planned[source.lease()]);
            observer.count(alignment, planned, (ops, id), (self.cpu, target));
        }
    }

    /// Enters a phase: fixes the schedule of an open loop. Only workers with connections of this pool take turns. Connections
    /// become active anew, because those that found the phase before spent wait.
    pub(crate) fn enter(
        &mut self,
        plan: &StreamPlan<P>,
        phase: usize,
        pool: usize,
        place: usize,
        since: Time,
    ) {
        (self.phase, self.active) = (phase, 0);
        let Some(phase) = plan.phases.get(phase) else {
            return;
        };
        let Model::Open { per_second } = self.terms.pool.model else {
            return;
        };
        if self.members.is_empty() {
            return;
        }
        let takes_part = |place: &usize| plan.workers[*place].shares[pool].connections() > 0;
        let turn = (0..place).filter(takes_part).count();
        let all = (0..plan.workers.len()).filter(takes_part).count();
        let ramp = Ramp {
            from: phase.from * per_second,
            to: phase.to * per_second,
            over: Duration::from_secs_f64(phase.until.duration_s.unwrap_or(0.0)),
        };
        self.schedule = Some(Schedule::ramp(since, ramp, turn, all));
        self.busy = Busy::NOT;
    }

    /// Leaves a phase: requests that its schedule did not issue are counted by the reason, not made up for. Without a server
    /// they failed.
    pub(crate) fn leave(&mut self, ended: Time) {
        let Some(schedule) = self.schedule.take() else {
            return;
        };
        // What was due after the last request of a phase that ends by a count was never to be sent.
        let most = if self.may_begin() { self.budget } else { 0 };
        let unsent = schedule.unissued_before(ended).min(most);
        let busy = std::mem::replace(&mut self.busy, Busy::NOT);
        let counts = &mut self.tally.counts.requests;
        if let Some(failure) = self.contact.refusal() {
            self.budget -= unsent;
            counts.begun += unsent;
            counts.failed += unsent;
            return counts.by_cause.count_all(failure, unsent);
        }
        let due_before = |time: Time| schedule.unissued_before(time.min(ended)).min(unsent);
        let waiting = busy.waited_until().map_or(0, due_before);
        let late = due_before(ended - NORMAL_LAG).saturating_sub(waiting);
        counts.unsent += unsent;
        counts.unsent_waiting += waiting;
        counts.unsent_late += late;
        counts.unsent_at_end += unsent - waiting - late;
    }

    /// Looks whether the server answers, after a turn that began and was to end at these times.
    pub(crate) fn look(&mut self, turn: (Time, Time), now: Time) {
        let Tally { counts, histograms } = &self.tally;
        let waiting = match P::Traffic::LASTS {
            true => 0,
            false => counts.requests.unfinished + u64::from(self.busy.lasts()),
        };
        let heard = (counts.bytes.received, waiting);
        self.contact.looked(heard, turn, now, &histograms.latency);
    }

    /// Activates this share of its connections; returns the newly active ones.
    pub(crate) fn activate(&mut self, level: f64) -> Range<usize> {
        let before = self.active;
        self.active = if self.terms.is_open_loop() {
            self.members.len()
        } else {
            (level * self.members.len() as f64).round() as usize
        };
        let first = self.members.start;
        first + before.min(self.active)..first + self.active
    }

    /// Whether another request may begin.
    pub(crate) fn may_begin(&self) -> bool {
        let quotas = self.quotas.as_ref();
        self.budget > 0 && quotas.is_none_or(|quotas| !quotas.is_spent(self.phase))
    }

    /// Takes a request from those that may begin; `false` if another worker took the last one meanwhile.
    pub(crate) fn take(&mut self) -> bool {
        let taken = (self.quotas.as_ref()).is_none_or(|quotas| quotas.take(self.phase));
        self.budget -= u64::from(taken);
        taken
    }

    /// A request has failed.
    pub(crate) fn failed(&self) {
        if let Some(quotas) = &self.quotas {
            quotas.failed(self.phase);
        }
    }

    /// Whether a connection may begin another request.
    pub(crate) fn may_ask(&self, index: usize) -> bool {
        !P::Traffic::LASTS
            && self.may_begin()
            && (self.terms.is_open_loop() || index - self.members.start < self.active)
    }
}

/// Which part of the load this worker's connections of a pool are.
fn part<P>(plan: &StreamPlan<P>, pool: usize, place: usize) -> Part {
    let of_worker = |place: usize| (0..plan.pools.len()).map(move |pool| (place, pool));
    let has_some = |at: &(usize, usize)| plan.workers[at.0].shares[at.1].connections() > 0;
    let parts = (0..plan.workers.len()).flat_map(of_worker).filter(has_some);
    Part {
        place: parts.clone().take_while(|at| *at < (place, pool)).count(),
        of: parts.clone().count(),
        bucket: plan.workers[place].bucket.map(|bucket| {
            let same = parts.filter(|at| plan.workers[at.0].bucket == Some(bucket));
            OfBucket {
                bucket,
                place: same.clone().take_while(|at| *at < (place, pool)).count(),
                of: same.count(),
            }
        }),
    }
}

/// This worker's part of a limited number of requests, in proportion to its connections of the pool.
fn budget<P>(plan: &StreamPlan<P>, pool: usize, place: usize) -> u64 {
    let Some(requests) = plan.requests else {
        return u64::MAX;
    };
    let connections = |place: usize, pool: usize| plan.workers[place].shares[pool].connections() as u64;
    let order =
        || (0..plan.workers.len()).flat_map(|place| (0..plan.pools.len()).map(move |pool| (place, pool)));
    let all: u64 = order().map(|(place, pool)| connections(place, pool)).sum();
    let before: u64 = order()
        .take_while(|at| *at != (place, pool))
        .map(|(place, pool)| connections(place, pool))
        .sum();
    // Rounded at whole requests, so that the parts sum to the total.
    let cut =
        |connections: u64| (u128::from(requests) * u128::from(connections) / u128::from(all.max(1))) as u64;
    cut(before + connections(place, pool)) - cut(before)
}
