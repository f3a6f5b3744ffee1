//! The running TCP generator, and the sum of its workers' results.

use super::loaded::{Rates, TcpCounts, TcpLoaded, TcpWorkerLoaded};
use super::plan::{TcpLoadError, TcpPlan};
use super::transfer::{Bytes, Transfers};
use crate::account::{late, merge};
use crate::showing::Seen;
use crate::streams::{
    self, Behaviour, Model, Outcome, PlannedPhase, PlannedPool, Share, StreamLoad, StreamPlan,
    StreamProgress, Timeouts, Until,
};
use crate::{Generator, Moment, Needs};
use std::time::Duration;

/// Maximum number of stalls listed in the document.
const STALLS_NAMED: usize = 256;

/// A running TCP generator. Dropping it stops it.
pub struct TcpLoad {
    plan: TcpPlan,
    load: StreamLoad<Bytes>,
}

impl Generator for TcpLoad {
    type Plan = TcpPlan;
    type Loaded = TcpLoaded;
    type Error = TcpLoadError;
    const KIND: &'static str = StreamLoad::<Bytes>::KIND;

    fn needs(plan: &TcpPlan) -> Needs {
        Needs::of_workers(&plan.workers, plan.target)
    }

    fn start(plan: Self::Plan) -> Result<Self, TcpLoadError> {
        Ok(Self {
            load: StreamLoad::start(plan.streams())?,
            plan,
        })
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        self.load.wait(timeout)
    }

    fn reached(&self) -> Option<Moment> {
        self.load.reached()
    }

    fn stop(&self) {
        self.load.stop();
    }

    fn finish(mut self) -> Result<TcpLoaded, TcpLoadError> {
        let outcomes = self.load.outcomes()?;
        Ok(self.add_up(outcomes))
    }
}

impl TcpLoad {
    /// Progress over all workers.
    #[must_use]
    pub fn progress(&self) -> StreamProgress {
        self.load.progress()
    }

    /// Live data of the workers, as of the previous call. Its times are those to open connections.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.load.seen()
    }

    /// The time left for transfers; `None` before they start.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        match self.load.phase() {
            Some((_, left)) => left,
            None => (!self.progress().opening).then_some(Duration::ZERO),
        }
    }

    /// The plan of the run.
    #[must_use]
    pub fn plan(&self) -> &TcpPlan {
        &self.plan
    }

    fn add_up(self, outcomes: Vec<Outcome<Bytes>>) -> TcpLoaded {
        let running = |outcome: &Outcome<Bytes>| outcome.running.max(outcome.groups[0].shared.running());
        let running = outcomes.iter().map(running).max().unwrap_or_default();
        let running_s = running.as_secs_f64().max(f64::MIN_POSITIVE);
        let gbit = |bytes: u64| bytes as f64 * 8.0 / running_s / 1e9;
        let groups = || outcomes.iter().map(|outcome| &outcome.groups[0]);
        let (connect_histogram, connect) = merge(groups().map(|group| &group.tally.histograms.connect));
        let (schedule_lag_histogram, schedule_lag) = merge(groups().map(|group| &group.shared.lag));
        let (mut total, mut stalled, mut rates) = (TcpCounts::default(), Vec::new(), Vec::new());
        let mut workers = Vec::new();
        for (planned, outcome) in self.plan.workers.iter().zip(&outcomes) {
            let counts = TcpCounts::of(outcome, self.plan.drain_s.is_some());
            total.add(&counts);
            let shared = &outcome.groups[0].shared;
            stalled.extend(stalls(shared, running_s));
            rates.extend(shared.moved.iter().map(|bytes| *bytes as f64 / running_s));
            workers.push(TcpWorkerLoaded {
                cpu: planned.cpu,
                bucket: planned.bucket,
                counts,
                cpu_s: outcome.usage.total_s(),
                gbit_per_second: gbit(counts.sent_bytes + counts.received_bytes),
            });
        }
        stalled.sort_by(|one, other| other.for_s.total_cmp(&one.for_s));
        stalled.truncate(STALLS_NAMED);
        let cpu_s: f64 = workers.iter().map(|worker| worker.cpu_s).sum();
        let behind_schedule = late("writes", schedule_lag, workers.iter().map(|worker| worker.cpu));
        let moved = (total.sent_bytes + total.received_bytes) as f64 * 8.0 / 1e9;
        let limit = total.not_opened.limit(total.asked, total.opened);
        TcpLoaded {
            schema: "corelane/loaded-tcp/1".to_owned(),
            engine: self.load.engine.kind.to_string(),
            engine_reason: self.load.engine.reason.clone(),
            opening_s: self.load.opening().as_secs_f64(),
            running_s: running.as_secs_f64(),
            sent_gbit_per_second: gbit(total.sent_bytes),
            received_gbit_per_second: gbit(total.received_bytes),
            gbit_per_cpu_second: (cpu_s > 0.0).then(|| moved / cpu_s),
            total,
            cpu_s,
            connect,
            connect_histogram,
            schedule_lag,
            limited_by: limit.or_else(|| behind_schedule.clone()),
            behind_schedule,
            schedule_lag_histogram,
            rates: spread(rates),
            stalled,
            workers,
            plan: self.plan,
        }
    }
}

impl TcpPlan {
    /// The plan as a stream plan: one pool and one phase.
    fn streams(&self) -> StreamPlan<Bytes> {
        let pool = PlannedPool {
            name: "main".to_owned(),
            target: self.target,
            tls: None,
            model: Model::Closed { think_s: 0.0 },
            connections: self.connections(),
            requests_a_connection: None,
            behaviour: Behaviour::default(),
            protocol: Bytes {
                direction: self.direction,
                write_bytes: self.write_bytes,
                write_bytes_per_second: self.write_bytes_per_second,
                stall: Duration::from_secs_f64(self.stall_s),
                drains: self.drain_s.is_some(),
            },
        };
        let workers = self.workers.iter().map(|worker| streams::PlannedWorker {
            cpu: worker.cpu,
            bucket: worker.bucket,
            own_descriptors: worker.own_descriptors,
            shares: vec![Share {
                leases: worker.leases.clone(),
            }],
        });
        StreamPlan {
            pools: vec![pool],
            phases: vec![PlannedPhase::hold(Until {
                duration_s: Some(self.duration_s),
                ..Until::default()
            })],
            requests: None,
            timeouts: Timeouts {
                connect_s: self.connect_timeout_s,
                continue_s: 0.0,
                first_byte_s: 0.0,
                request_s: 0.0,
                drain_s: self.drain_s.unwrap_or(0.0),
            },
            engine: self.engine,
            memory: self.memory,
            gather_us: 0,
            workers: workers.collect(),
        }
    }
}

impl TcpCounts {
    /// The counters of one worker; `drained`: draining was requested.
    fn of(outcome: &Outcome<Bytes>, drained: bool) -> Self {
        let (tally, shared) = (&outcome.groups[0].tally.counts, &outcome.groups[0].shared);
        Self {
            asked: tally.connections.asked,
            opened: tally.connections.opened,
            open_at_end: shared.moved.len() as u64,
            undrained: if drained { tally.requests.unfinished } else { 0 },
            not_opened: tally.connections.failed,
            broken: tally.requests.by_cause,
            sent_bytes: tally.bytes.sent,
            received_bytes: tally.bytes.received,
            stalls: shared.stall_count,
            stalled_at_end: shared.stalled,
            retransmitted: shared.retransmitted,
            out_of_order: shared.out_of_order,
        }
    }
}

/// The stalls of a worker; unfinished ones lasted until the end of the run.
fn stalls(shared: &Transfers, running_s: f64) -> impl Iterator<Item = super::Stall> {
    shared.stalls.iter().map(move |stall| super::Stall {
        for_s: if stall.ended {
            stall.for_s
        } else {
            running_s - stall.since_s
        },
        ..stall.clone()
    })
}

/// Distribution of rates over connections; `None` without connections.
fn spread(mut rates: Vec<f64>) -> Option<Rates> {
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| {
        rates
            .get(((rates.len() as f64 - 1.0) * share).round() as usize)
            .copied()
    };
    Some(Rates {
        connections: rates.len() as u64,
        min: at(0.0)?,
        p10: at(0.1)?,
        median: at(0.5)?,
        p90: at(0.9)?,
        max: at(1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_rates_names_both_ends_and_the_middle() {
        let rates = spread((0..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            (
                rates.connections,
                rates.min,
                rates.p10,
                rates.median,
                rates.p90,
                rates.max
            ),
            (101, 0.0, 10.0, 50.0, 90.0, 100.0)
        );
        assert_eq!(spread(Vec::new()), None);
    }
}
