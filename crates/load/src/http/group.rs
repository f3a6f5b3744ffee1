//! One worker's part of one pool: its requests as bytes, its schedule, its ports, its counts and histograms.

use super::body::Body;
use super::error::HttpLoadError;
use super::loaded::{ConnectionCounts, HttpBytes};
use super::plan::{
    Behaviour, HttpPlan, Model, PlannedPhase, PlannedPool, PlannedRequest, Promise, StatusRange,
};
use super::tls::{Encryption, TlsPool};
use crate::failure::Failures;
use crate::pace::{Ramp, Schedule};
use crate::sources::PortPool;
use corelane_measure::histogram::Histogram;
use corelane_worker::Time;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// One worker's part of one pool.
pub(super) struct Group {
    pub(super) target: SocketAddr,
    pub(super) model: Model,
    pub(super) requests_a_connection: u32,
    pub(super) behaviour: Behaviour,
    pub(super) statuses: Vec<StatusRange>,
    /// How its connections are encrypted, where they are.
    pub(super) encryption: Option<Box<Encryption>>,
    requests: Arc<Vec<Prepared>>,
    /// Its connections among the worker's.
    pub(super) members: Range<usize>,
    /// How many of them, the first ones, are at work: a ramp changes it.
    pub(super) active: usize,
    /// Set when the run starts, in an open loop.
    pub(super) schedule: Option<Schedule>,
    /// Open connections with nothing to do, the one that rested longest in front.
    pub(super) idle: VecDeque<u32>,
    pub(super) ports: PortPool,
    /// Requests that may still be begun.
    pub(super) budget: u64,
    /// Requests begun and not accounted for.
    pub(super) under_way: u64,
    /// Whether the schedule waits for a connection.
    pub(super) starving: bool,
    pub(super) counts: Counts,
    pub(super) latency: Histogram,
    pub(super) connect: Histogram,
    pub(super) schedule_lag: Histogram,
}

/// What a group counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) begun: u64,
    pub(super) sent: u64,
    pub(super) ok: u64,
    pub(super) failures: Failures,
    pub(super) waited: u64,
    pub(super) aborted: u64,
    pub(super) unsent: u64,
    pub(super) continued: u64,
    pub(super) body_refused: u64,
    pub(super) continue_timeouts: u64,
    pub(super) bytes: HttpBytes,
    pub(super) connections: ConnectionCounts,
}

/// A request as it is sent.
#[derive(Debug)]
pub(super) struct Prepared {
    head: Vec<u8>,
    last_head: Vec<u8>,
    pub(super) body: Option<Body>,
    pub(super) promise: Promise,
    /// Whether the body waits until the server asks for it.
    pub(super) expect_continue: bool,
    /// Whether the answer has no body.
    pub(super) to_head: bool,
    /// The weights up to this one, as a part of all.
    cumulative: f64,
}

impl Prepared {
    /// The head, for the last request of a connection or for any other.
    pub(super) fn head(&self, last: bool) -> &[u8] {
        if last { &self.last_head } else { &self.head }
    }

    /// Bytes of head and body, without coding.
    pub(super) fn bytes(&self, last: bool) -> u64 {
        self.head(last).len() as u64 + self.body.as_ref().map_or(0, Body::length)
    }
}

impl Group {
    /// The part of `pool` that worker `place` of the plan has; its connections are the worker's from `first` on.
    pub(super) fn new(
        plan: &HttpPlan,
        pool: usize,
        place: usize,
        first: usize,
        (requests, tls): (Arc<Vec<Prepared>>, Option<&TlsPool>),
    ) -> Self {
        let planned = &plan.pools[pool];
        let share = &plan.workers[place].shares[pool];
        let mut counts = Counts::default();
        counts.connections.asked = share.connections() as u64;
        Self {
            target: planned.target,
            model: planned.model,
            requests_a_connection: planned.requests_a_connection.unwrap_or(u32::MAX),
            behaviour: planned.behaviour,
            statuses: planned.statuses.clone(),
            encryption: tls.map(|tls| Box::new(tls.encryption(share.connections()))),
            requests,
            members: first..first + share.connections(),
            active: 0,
            schedule: None,
            idle: VecDeque::new(),
            ports: PortPool::new(&share.leases),
            budget: budget(plan, pool, place),
            under_way: 0,
            starving: false,
            counts,
            latency: Histogram::new(),
            connect: Histogram::new(),
            schedule_lag: Histogram::new(),
        }
    }

    /// Begins a phase: fixes the schedule of an open loop. Only workers with connections of this pool take turns.
    pub(super) fn enter(
        &mut self,
        plan: &HttpPlan,
        phase: &PlannedPhase,
        pool: usize,
        place: usize,
        since: Time,
    ) {
        let Model::Open { per_second } = self.model else {
            return;
        };
        let takes_part = |place: &usize| plan.workers[*place].shares[pool].connections() > 0;
        let turn = (0..place).filter(takes_part).count();
        let all = (0..plan.workers.len()).filter(takes_part).count();
        let ramp = Ramp {
            from: phase.from * per_second,
            to: phase.to * per_second,
            over: phase
                .until
                .duration_s
                .map(Duration::from_secs_f64)
                .unwrap_or_default(),
        };
        self.schedule = Some(Schedule::ramp(since, ramp, turn, all));
        self.starving = false;
    }

    /// Has so much of its connections at work; those that newly are.
    pub(super) fn activate(&mut self, level: f64) -> Range<usize> {
        let before = self.active;
        self.active = if self.is_open_loop() {
            self.members.len()
        } else {
            (level * self.members.len() as f64).round() as usize
        };
        let first = self.members.start;
        first + before.min(self.active)..first + self.active
    }

    /// Whether a connection is at work.
    pub(super) fn is_active(&self, index: usize) -> bool {
        index - self.members.start < self.active
    }

    /// Which request comes next.
    pub(super) fn choose(&self, random: &mut fastrand::Rng) -> u16 {
        if self.requests.len() == 1 {
            return 0;
        }
        let drawn = random.f64();
        let chosen = self
            .requests
            .partition_point(|request| request.cumulative <= drawn);
        chosen.min(self.requests.len() - 1) as u16
    }

    pub(super) fn request(&self, index: u16) -> &Prepared {
        &self.requests[usize::from(index)]
    }

    /// All of them, to be held while the group changes.
    pub(super) fn requests(&self) -> Arc<Vec<Prepared>> {
        Arc::clone(&self.requests)
    }

    /// Whether requests are given away bit by bit: slowly, or as they are encrypted.
    pub(super) fn writes_bit_by_bit(&self) -> bool {
        self.behaviour.write_bytes_per_second.is_some() || self.encryption.is_some()
    }

    /// Whether a status is one that counts as success.
    pub(super) fn expects(&self, status: u16) -> bool {
        self.statuses
            .iter()
            .any(|range| (range.first..=range.last).contains(&status))
    }

    /// How long a connection thinks.
    pub(super) fn think(&self) -> Duration {
        match self.model {
            Model::Closed { think_s } => Duration::from_secs_f64(think_s),
            Model::Open { .. } => Duration::ZERO,
        }
    }

    pub(super) fn is_open_loop(&self) -> bool {
        matches!(self.model, Model::Open { .. })
    }
}

/// The requests of each pool as they are sent, made once for all workers.
pub(super) fn prepare(plan: &HttpPlan) -> Result<Vec<Arc<Vec<Prepared>>>, HttpLoadError> {
    plan.pools
        .iter()
        .map(|pool| prepare_pool(pool).map(Arc::new))
        .collect()
}

fn prepare_pool(pool: &PlannedPool) -> Result<Vec<Prepared>, HttpLoadError> {
    let all: f64 = pool.requests.iter().map(|request| request.weight).sum();
    let mut weight = 0.0;
    let prepare = |request: &PlannedRequest| {
        weight += request.weight;
        Ok(Prepared {
            head: request.head.clone().into_bytes(),
            last_head: request.last_head.clone().into_bytes(),
            body: Body::load(&request.body, request.chunked)?,
            promise: request.promise,
            expect_continue: request.expect_continue,
            to_head: request.method == "HEAD",
            cumulative: weight / all,
        })
    };
    pool.requests.iter().map(prepare).collect()
}

/// This worker's part of a limited number of requests: as many as its part of the pool's connections, over all pools
/// alike.
fn budget(plan: &HttpPlan, pool: usize, place: usize) -> u64 {
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
    // Cut at whole requests, so that the parts add up.
    let cut =
        |connections: u64| (u128::from(requests) * u128::from(connections) / u128::from(all.max(1))) as u64;
    cut(before + connections(place, pool)) - cut(before)
}
