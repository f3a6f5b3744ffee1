//! The running TCP generator: starts its workers, tells their progress, and adds up what they found.

use super::generator::{Generator as WorkerGenerator, LiveCounters, Outcome};
use super::loaded::{Rates, TcpCounts, TcpLoaded, TcpWorkerLoaded};
use super::plan::{TcpLoadError, TcpPlan};
use crate::account::{late, merge};
use crate::showing::Seen;
use crate::{Generator, Moment, Needs};
use corelane_worker::crew::{Crew, CrewEvent};
use corelane_worker::engine::{Chosen, EngineSettings, choose};
use corelane_worker::{CachePadded, Time, WorkerSettings};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stalls that the document names.
const STALLS_NAMED: usize = 256;

/// A TCP generator that is running. Dropping it ends it.
pub struct TcpLoad {
    plan: Arc<TcpPlan>,
    engine: Chosen,
    crew: Crew<Outcome>,
    live: Vec<Arc<CachePadded<LiveCounters>>>,
    began: Instant,
    opening: Option<Duration>,
    begun: Option<Instant>,
}

/// What was moved so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpProgress {
    /// Whether connections are still being opened.
    pub opening: bool,
    /// Whether it is all over: nothing more is written, and the last bytes have arrived where it was waited for them.
    pub drained: bool,
    /// Connections that are open.
    pub open: u64,
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Connections that stand still.
    pub stalled: u64,
}

impl Generator for TcpLoad {
    type Plan = TcpPlan;
    type Loaded = TcpLoaded;
    type Error = TcpLoadError;
    const KIND: &'static str = "tcp_generator";

    fn needs(plan: &TcpPlan) -> Needs {
        plan.needs()
    }

    fn start(plan: Self::Plan) -> Result<Self, TcpLoadError> {
        let mut load = Self {
            engine: choose(plan.engine),
            plan: Arc::new(plan),
            crew: Crew::new(),
            live: Vec::new(),
            began: Instant::now(),
            opening: None,
            begun: None,
        };
        for (place, worker) in load.plan.workers.iter().enumerate() {
            let thread = WorkerSettings {
                memory: load.plan.memory,
                own_descriptors: worker.own_descriptors,
                ..WorkerSettings::new(format!("load {place}"), worker.cpu)
            };
            let (plan, stop, live) = (Arc::clone(&load.plan), load.crew.stop_flag(), Arc::default());
            load.live.push(Arc::clone(&live));
            let make = move |_, _| WorkerGenerator::new(plan, place, stop, live);
            let engine = (load.engine.kind, EngineSettings::default());
            load.crew.start(thread, Vec::new(), engine, make)?;
        }
        Ok(load)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Time::now() + timeout;
        loop {
            match self.crew.wait(deadline.since(Time::now())) {
                CrewEvent::AllReady => {
                    self.opening = Some(self.began.elapsed());
                    if self.progress().open == 0 {
                        // Nothing could be measured: the report says why.
                        self.stop();
                    }
                    self.begun = Some(Instant::now());
                    self.crew.begin(|_| {});
                }
                CrewEvent::AllEnded => return true,
                CrewEvent::Nothing => return false,
            }
        }
    }

    fn reached(&self) -> Option<Moment> {
        let progress = self.progress();
        match (progress.opening, progress.drained) {
            (true, _) => None,
            (false, false) => Some(Moment::Opened),
            (false, true) => Some(Moment::Sent),
        }
    }

    fn stop(&self) {
        self.crew.stop();
    }

    fn finish(mut self) -> Result<TcpLoaded, TcpLoadError> {
        while !self.wait(Duration::from_secs(1)) {}
        let outcomes = self.crew.finish()?;
        Ok(self.add_up(outcomes))
    }
}

impl TcpLoad {
    /// What happened so far, over all workers.
    #[must_use]
    pub fn progress(&self) -> TcpProgress {
        let mut sum = TcpProgress {
            opening: self.opening.is_none(),
            drained: self.live.iter().all(|live| live.drained.get() > 0),
            ..TcpProgress::default()
        };
        for live in &self.live {
            sum.open += live.open.get();
            sum.sent_bytes += live.sent.get();
            sum.received_bytes += live.received.get();
            sum.stalled += live.stalled.get();
        }
        sum
    }

    /// What only the workers know, as of the last time that this was asked: for one who watches. Its times are those that
    /// connections took to open.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen::sum(self.live.iter().map(|live| live.shown.look()))
    }

    /// The time left in which bytes are moved; `None` before they are.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let duration = Duration::from_secs_f64(self.plan.duration_s);
        Some(duration.saturating_sub(self.begun?.elapsed()))
    }

    /// The plan that runs.
    #[must_use]
    pub fn plan(&self) -> &TcpPlan {
        &self.plan
    }

    fn add_up(&self, mut outcomes: Vec<Outcome>) -> TcpLoaded {
        let mut total = TcpCounts::default();
        let (connect_histogram, connect) = merge(outcomes.iter().map(|outcome| &outcome.connect));
        let (schedule_lag_histogram, schedule_lag) = merge(outcomes.iter().map(|outcome| &outcome.lag));
        let (mut stalled, mut rates, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        let running_s = outcomes
            .iter()
            .map(|outcome| outcome.running.as_secs_f64())
            .fold(0.0, f64::max);
        let gbit = |bytes: u64| {
            if running_s > 0.0 {
                bytes as f64 * 8.0 / running_s / 1e9
            } else {
                0.0
            }
        };
        for (planned, outcome) in self.plan.workers.iter().zip(&mut outcomes) {
            total.add(&outcome.counts);
            stalled.append(&mut outcome.stalls);
            rates.extend(
                outcome
                    .moved
                    .iter()
                    .map(|bytes| *bytes as f64 / running_s.max(f64::MIN_POSITIVE)),
            );
            workers.push(TcpWorkerLoaded {
                cpu: planned.cpu,
                bucket: planned.bucket,
                counts: outcome.counts,
                cpu_s: outcome.usage.total_s(),
                gbit_per_second: gbit(outcome.counts.sent_bytes + outcome.counts.received_bytes),
            });
        }
        stalled.sort_by(|one, other| other.for_s.total_cmp(&one.for_s));
        stalled.truncate(STALLS_NAMED);
        let cpu_s: f64 = workers.iter().map(|worker| worker.cpu_s).sum();
        let behind_schedule = late("writes", schedule_lag, workers.iter().map(|worker| worker.cpu));
        let moved = (total.sent_bytes + total.received_bytes) as f64 * 8.0 / 1e9;
        TcpLoaded {
            schema: "corelane/loaded-tcp/1".to_owned(),
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            opening_s: self.opening.unwrap_or_else(|| self.began.elapsed()).as_secs_f64(),
            running_s,
            total,
            sent_gbit_per_second: gbit(total.sent_bytes),
            received_gbit_per_second: gbit(total.received_bytes),
            gbit_per_cpu_second: (cpu_s > 0.0).then(|| moved / cpu_s),
            cpu_s,
            connect,
            connect_histogram,
            schedule_lag,
            limited_by: total
                .not_opened
                .limit(total.asked, total.opened)
                .or_else(|| behind_schedule.clone()),
            behind_schedule,
            schedule_lag_histogram,
            rates: spread(rates),
            stalled,
            workers,
            plan: (*self.plan).clone(),
        }
    }
}

/// How evenly connections fared; nothing where there was none.
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
