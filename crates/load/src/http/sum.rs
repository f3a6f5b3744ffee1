//! What all workers found, added up: outcomes in, the document out, with what limited the generator.

use super::generator::Outcome;
use super::loaded::{
    ClientCost, ConnectionCounts, HttpBytes, HttpLoaded, PhaseLoaded, PoolLoaded, RequestCounts, WorkerLoaded,
};
use super::plan::HttpPlan;
use super::tls::TlsLoaded;
use crate::account::{late, merge};
use corelane_host::usage::Usage;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::quantity;
use corelane_worker::engine::Chosen;
use std::time::Duration;

/// The share of requests that a schedule may lose before the generator alone is called the limit: its last instant always has
/// a few.
const MOST_UNSENT: f64 = 0.001;

/// The share of requests that may wait for a connection before the connections are called the limit.
const MOST_WAITING: f64 = 0.01;

/// What a run knows beside its workers' outcomes.
pub(super) struct Run<'a> {
    pub(super) plan: &'a HttpPlan,
    pub(super) engine: &'a Chosen,
    pub(super) opening: Duration,
    pub(super) resident_before: Option<u64>,
    pub(super) resident_open: Option<u64>,
    pub(super) phases: Vec<PhaseLoaded>,
}

impl Run<'_> {
    /// The document of these outcomes, in the order of the plan's workers.
    pub(super) fn add_up(&self, outcomes: Vec<Outcome>) -> HttpLoaded {
        let pools: Vec<PoolLoaded> = (0..self.plan.pools.len())
            .map(|pool| self.pool(pool, &outcomes))
            .collect();
        let running_s = outcomes
            .iter()
            .map(|outcome| outcome.running.as_secs_f64())
            .fold(0.0, f64::max);
        let (mut connections, mut requests) = (ConnectionCounts::default(), RequestCounts::default());
        let mut bytes = HttpBytes::default();
        for pool in &pools {
            connections.add(&pool.connections);
            requests.add(&pool.requests);
            bytes.add(&pool.bytes);
        }
        connections.open_at_end = outcomes.iter().map(|outcome| outcome.open).sum();
        connections.open_unanswered = outcomes.iter().map(|outcome| outcome.unanswered).sum();
        let merged = |histogram: fn(&PoolLoaded) -> &Option<Histogram>| {
            merge(pools.iter().filter_map(|pool| histogram(pool).as_ref()))
        };
        let schedule_lag = merged(|pool| &pool.schedule_lag_histogram).1;
        let mut models: Vec<&str> = pools.iter().map(|pool| pool.model.as_str()).collect();
        models.dedup();
        let late = self.late(schedule_lag, &outcomes);
        let behind = |most_unsent| unsent(&requests, most_unsent).or_else(|| late.clone());
        let gathering = outcomes.iter().map(|outcome| outcome.gathering).max();
        let gathering = gathering.filter(|gathering| !gathering.is_zero());
        HttpLoaded {
            schema: HttpLoaded::SCHEMA.to_owned(),
            model: if models.len() == 1 { models[0] } else { "mixed" }.to_owned(),
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            opening_s: self.opening.as_secs_f64(),
            running_s,
            connections,
            requests,
            requests_per_second: if running_s > 0.0 {
                requests.ok as f64 / running_s
            } else {
                0.0
            },
            bytes,
            latency: merged(|pool| &pool.latency_histogram).1,
            connect: merged(|pool| &pool.connect_histogram).1,
            handshake: merged(|pool| &pool.handshake_histogram).1,
            tls: TlsLoaded::sum(pools.iter().filter_map(|pool| pool.tls.as_ref())),
            schedule_lag,
            limited_by: limited_by(&requests, &connections, behind(0.0)),
            behind_schedule: behind(MOST_UNSENT).filter(|_| !waited(&requests)),
            gather_us: gathering.map(|gathering| gathering.as_secs_f64() * 1e6),
            notes: gathering.map(gathered).into_iter().collect(),
            client: self.cost(&outcomes, requests.ok, connections.opened),
            workers: self.told_by_worker(&outcomes),
            phases: self.phases.clone(),
            pools,
            plan: self.plan.clone(),
        }
    }

    /// How late requests left, where the workers' CPUs do not explain it.
    fn late(&self, lag: Option<Summary>, outcomes: &[Outcome]) -> Option<String> {
        let late = late("requests", lag, self.plan.workers.iter().map(|worker| worker.cpu))?;
        let waited: Duration = outcomes.iter().map(|outcome| outcome.waited).sum();
        Some(if waited.is_zero() {
            late
        } else {
            let waited = quantity::duration(waited.as_nanos() as f64);
            format!("{late}; workers waited {waited} for CPUs that others had")
        })
    }

    fn pool(&self, pool: usize, outcomes: &[Outcome]) -> PoolLoaded {
        let planned = &self.plan.pools[pool];
        let groups = || outcomes.iter().map(|outcome| &outcome.groups[pool]);
        let (mut connections, mut requests) = (ConnectionCounts::default(), RequestCounts::default());
        let mut bytes = HttpBytes::default();
        for group in groups() {
            connections.add(&group.counts.connections);
            requests.add(&group.counts.requests);
            bytes.add(&group.counts.bytes);
        }
        let (latency_histogram, latency) = merge(groups().map(|group| &group.latency));
        let (connect_histogram, connect) = merge(groups().map(|group| &group.connect));
        let encrypted = || groups().filter_map(|group| group.encryption.as_deref());
        let (handshake_histogram, handshake) = merge(encrypted().map(|encryption| &encryption.handshake));
        let (schedule_lag_histogram, schedule_lag) = merge(groups().map(|group| &group.schedule_lag));
        PoolLoaded {
            name: planned.name.clone(),
            target: planned.target,
            model: planned.model.name().to_owned(),
            connections,
            requests,
            bytes,
            latency,
            latency_histogram,
            connect,
            connect_histogram,
            handshake,
            handshake_histogram,
            tls: TlsLoaded::sum(encrypted().map(|encryption| &encryption.counts)),
            schedule_lag,
            schedule_lag_histogram,
        }
    }

    fn told_by_worker(&self, outcomes: &[Outcome]) -> Vec<WorkerLoaded> {
        let planned = self.plan.workers.iter().zip(outcomes);
        planned
            .map(|(planned, outcome)| WorkerLoaded {
                cpu: planned.cpu,
                bucket: planned.bucket,
                connections: planned.connections() as u64,
                ok: outcome.groups.iter().map(|group| group.counts.requests.ok).sum(),
                cpu_s: outcome.usage.total_s(),
                waited_for_cpu_s: outcome.waited.as_secs_f64(),
            })
            .collect()
    }

    fn cost(&self, outcomes: &[Outcome], ok: u64, opened: u64) -> ClientCost {
        let usage = outcomes
            .iter()
            .fold(Usage::default(), |sum, outcome| sum.plus(&outcome.usage));
        let grown = self
            .resident_open
            .zip(self.resident_before)
            .map(|(open, before)| open.saturating_sub(before));
        ClientCost {
            cpu_s: usage.total_s(),
            user_s: usage.user_s,
            system_s: usage.system_s,
            requests_per_cpu_second: (usage.total_s() > 0.0).then(|| ok as f64 / usage.total_s()),
            resident_before_bytes: self.resident_before,
            resident_open_bytes: self.resident_open,
            bytes_a_connection: grown
                .filter(|_| opened > 0)
                .map(|grown| grown as f64 / opened as f64),
        }
    }
}

/// What is to be known of latencies of answers that gathered.
fn gathered(gathering: Duration) -> String {
    format!(
        "answers gathered for up to {} before they were taken, which latencies include (--gather)",
        quantity::duration(gathering.as_nanos() as f64)
    )
}

fn limited_by(
    requests: &RequestCounts,
    connections: &ConnectionCounts,
    behind_schedule: Option<String>,
) -> Option<String> {
    if let Some(limit) = connections.failed.limit(connections.asked, connections.opened) {
        return Some(limit);
    }
    if waited(requests) {
        return Some(format!(
            "{} requests on the schedule waited because every connection was busy: use more --connections, or a lower --rate",
            requests.waited_for_connection
        ));
    }
    behind_schedule
}

/// Whether the schedule waited for connections.
fn waited(requests: &RequestCounts) -> bool {
    requests.waited_for_connection as f64 > requests.begun as f64 * MOST_WAITING
}

/// Says how many requests were not sent, where that is more than a share of them.
fn unsent(requests: &RequestCounts, most: f64) -> Option<String> {
    (requests.unsent as f64 > requests.begun as f64 * most).then(|| {
        format!(
            "{} requests on the schedule were not sent in time",
            requests.unsent
        )
    })
}
