//! The running UDP generator: starts its workers together, reports progress, and sums the results.

use super::document::{Counts, SourceCounts, UdpLoadReport, WorkerCounts};
use super::generator::{Generator as WorkerGenerator, Shared, Tally};
use super::metrics::{self, LiveDatagrams};
use super::plan::{UdpLoadError, UdpPlan};
use super::protocol::{DatagramProtocol, Probes};
use crate::account::{late, merge};
use crate::alignment::{AlignmentCounts, Observer};
use crate::document::RunOutcome;
use crate::live::{LiveWorkers, Snapshot};
use crate::lost::Lost;
use crate::sources::PlannedWorker;
use crate::standstill;
use crate::team::Team;
use crate::{Generator, Moment, Needs};
use corelane_host::counters::{UdpCounters, UdpStatistics};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::metric::Metric;
use corelane_measure::quantity;
use corelane_worker::Time;
use corelane_worker::crew::CrewEvent;
use corelane_worker::engine::{Chosen, choose};
use corelane_worker::memory::PageLocations;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Share of the datagrams sent above which own drops are reported as the limit.
const MOST_DROPPED_HERE: f64 = 0.001;

/// A running UDP generator. Dropping it stops it.
pub struct UdpLoad<P: DatagramProtocol = Probes> {
    plan: Arc<UdpPlan<P>>,
    engine: Chosen,
    team: Team<LiveDatagrams, Tally<P::Counts>>,
    begun: Time,
    /// When sending begins; `None` while sockets are opened.
    start: Option<Time>,
    /// What the kernel had counted before; `None` if it does not say.
    kernel: Option<UdpCounters>,
}

/// A protocol whose generator can be started.
pub trait DatagramStart: DatagramProtocol {
    /// Starts a generator: [`UdpLoad::of_plan`]. Not a provided method, because it must not be generic: the loops of the workers are
    /// compiled with the protocol, once, instead of with every program that starts them.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    fn start(plan: UdpPlan<Self>) -> Result<UdpLoad<Self>, UdpLoadError>;
}

impl DatagramStart for Probes {
    #[inline(never)]
    fn start(plan: UdpPlan<Self>) -> Result<UdpLoad<Self>, UdpLoadError> {
        UdpLoad::of_plan(plan)
    }
}

impl<P: DatagramStart> Generator for UdpLoad<P> {
    type Plan = UdpPlan<P>;
    type Report = UdpLoadReport<P>;
    type Error = UdpLoadError;
    type Counts = LiveDatagrams;
    const KIND: &'static str = P::NAME;
    const COUNTED: &'static [Metric<LiveDatagrams>] = LiveDatagrams::ALL;
    const TIMED: Option<&'static Metric<Histogram>> = Some(&metrics::ROUND_TRIP);
    const FAILED: &'static [Metric<u64>] = &metrics::FAILED;

    fn needs(plan: &UdpPlan<P>) -> Needs {
        let protocol = &plan.protocol;
        let bytes = (protocol.state_bytes(), protocol.counts_bytes());
        Needs::of_workers(&plan.workers, plan.target, bytes)
    }

    fn start(plan: Self::Plan) -> Result<Self, UdpLoadError> {
        P::start(plan)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let event = self.team.crew.wait(timeout);
        if event == CrewEvent::AllReady {
            self.start = Some(self.team.crew.begin(|_| {}));
        }
        let counted = match self.plan.answers {
            true => LiveDatagrams::RETURNED,
            false => LiveDatagrams::SENT,
        };
        if let Some(start) = self.start {
            self.team.record(start, &[counted]);
        }
        event == CrewEvent::AllEnded
    }

    fn reached(&self) -> Option<Moment> {
        self.sending_ended().then_some(Moment::Sent)
    }

    fn live_workers(&self) -> &LiveWorkers<LiveDatagrams> {
        &self.team.live
    }

    fn snapshot(&mut self) -> Snapshot {
        let stage = match (self.is_opening(), self.sending_ended()) {
            (true, _) => "opening",
            (false, false) => "sending",
            (false, true) => "draining",
        };
        Snapshot {
            stage: stage.to_owned(),
            no_times_because: (!self.plan.answers).then_some("no answers are awaited (--no-answers)"),
            ..self.team.snapshot(self.start)
        }
    }

    fn stop(&self) {
        self.team.crew.stop();
    }

    fn finish(mut self) -> Result<UdpLoadReport<P>, UdpLoadError> {
        while !self.wait(Duration::from_secs(1)) {}
        let outcomes = self.team.crew.finish()?;
        Ok(self.add_up(outcomes))
    }
}

impl<P: DatagramStart> UdpLoad<P> {
    /// Starts the workers of a plan.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    pub fn of_plan(plan: UdpPlan<P>) -> Result<Self, UdpLoadError> {
        let mut settings = plan.settings.clone();
        let sockets = plan.workers.iter().map(PlannedWorker::sockets);
        settings.sockets = sockets.max().unwrap_or(0);
        let engine = choose(plan.engine).for_workers(plan.engine, plan.workers.len(), &settings)?;
        let (plan, begun) = (Arc::new(plan), Time::now());
        let kernel = udp_counters();
        let workers = plan.workers.iter();
        let mut team = Team::on(workers.clone().map(|worker| worker.cpu));
        let shared = Shared {
            observer: Observer::of(&plan.steering).map(Arc::new),
            requests: Arc::new(plan.protocol.prepare()),
            plan: Arc::clone(&plan),
            stop: team.crew.stop_flag(),
            live: Arc::clone(&team.live),
        };
        team.start(
            workers.map(|worker| worker.own_descriptors),
            plan.memory,
            &(engine.kind, settings),
            move |place, _| WorkerGenerator::new(place, shared.clone()),
        )?;
        Ok(Self {
            begun,
            start: None,
            plan,
            engine,
            team,
            kernel,
        })
    }

    /// Whether sockets are still being opened before the run.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.start.is_none()
    }

    /// The plan of the run.
    #[must_use]
    pub fn plan(&self) -> &UdpPlan<P> {
        &self.plan
    }

    /// The time left for sending, if limited by time.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let duration = Duration::from_secs_f64(self.plan.until.duration_s?);
        let end = self.start? + duration;
        (!self.sending_ended()).then(|| end.since(Time::now()))
    }

    /// Whether every worker has sent its last datagram; answers may still be pending.
    #[must_use]
    pub fn sending_ended(&self) -> bool {
        self.team.is_draining()
    }

    /// The times in which all workers found the server silent.
    fn lost(&self, outcomes: &[Tally<P::Counts>]) -> Vec<Lost> {
        let (start, workers) = (self.start.unwrap_or(self.begun), outcomes.iter());
        let lost = workers.map(|outcome| (outcome.lost.clone(), start + outcome.sending));
        Lost::common(&self.plan.target.into(), start, lost)
    }

    fn add_up(&self, outcomes: Vec<Tally<P::Counts>>) -> UdpLoadReport<P> {
        let (mut total, mut alignment) = (Counts::default(), AlignmentCounts::default());
        let (round_trip_histogram, round_trip) = merge(outcomes.iter().map(|outcome| &outcome.round_trip));
        let lag = merge(outcomes.iter().map(|outcome| &outcome.schedule_lag)).1;
        let mut sending = Duration::ZERO;
        let ran = self.plan.workers.iter().zip(&outcomes);
        let standstill = standstill::limit(
            ran.map(|(planned, outcome)| (planned.cpu, outcome.stood_still, outcome.sending)),
        );
        let lost = self.lost(&outcomes);
        let counted = self.kernel.zip(udp_counters());
        let (mut workers, mut sources, pages) = (Vec::new(), Vec::new(), PageLocations::read());
        let memory = (self.plan.memory, self.plan.settings.memory);
        for (place, (planned, outcome)) in self.plan.workers.iter().zip(outcomes).enumerate() {
            total.add(&outcome.counts);
            alignment.add(&outcome.alignment);
            sending = sending.max(outcome.sending);
            sources.extend(of_sources(planned, outcome.leases));
            workers.push(WorkerCounts {
                cpu: planned.cpu,
                bucket: planned.bucket,
                stood_still_s: outcome.stood_still.as_secs_f64(),
                counts: outcome.counts,
                memory: self.team.memory(place, memory, &pages),
            });
        }
        if let Some((before, after)) = counted {
            total.bad_checksum = after.since(&before).bad_checksums(total.dropped_here);
            total.dropped_here -= total.bad_checksum;
        }
        let none = Histogram::new();
        let times = round_trip_histogram.as_ref().unwrap_or(&none);
        let cpus = workers.iter().map(|worker| worker.cpu);
        let outcome = RunOutcome {
            over_time: self.team.over_time.ended(sending.as_secs_f64(), times),
            limited_by: standstill.or_else(|| limited_by(&total, lag, cpus)),
            failed_because: failed_because(&total, self.plan.target, self.plan.answers),
            notes: self.plan.notes.clone(),
            ..RunOutcome::default()
        }
        .with_lost(lost, true);
        UdpLoadReport {
            schema: P::SCHEMA.to_owned(),
            target: self.plan.target,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            opening_s: self.start.unwrap_or(self.begun).since(self.begun).as_secs_f64(),
            sending_s: sending.as_secs_f64(),
            sockets: self.plan.sockets(),
            total,
            round_trip,
            round_trip_histogram,
            schedule_lag: lag,
            alignment,
            workers,
            outcome,
            sources: SourceCounts::sum(sources.into_iter()),
        }
    }
}

/// What was sent from and returned to each source of a worker.
fn of_sources(planned: &PlannedWorker, counts: Vec<(u64, u64)>) -> impl Iterator<Item = SourceCounts> {
    let leases = planned.leases.iter().zip(counts);
    leases.map(|(lease, (sent, returned))| SourceCounts {
        address: lease.address,
        bucket: planned.bucket,
        sockets: lease.connections,
        sent,
        returned,
    })
}

fn limited_by<C>(total: &Counts<C>, lag: Option<Summary>, cpus: impl Iterator<Item = u32>) -> Option<String> {
    if let unsent @ 1.. = total.unsent {
        return Some(format!(
            "{unsent} datagrams on the schedule were not sent in time"
        ));
    }
    if total.dropped_here as f64 > total.sent as f64 * MOST_DROPPED_HERE {
        let dropped = quantity::count(total.dropped_here);
        return Some(format!(
            "its own sockets dropped {dropped} answers, which it read too slowly"
        ));
    }
    late("datagrams", lag, cpus)
}

/// Why nothing was achieved, if so.
fn failed_because<C>(total: &Counts<C>, target: SocketAddr, answers: bool) -> Option<String> {
    let causes = |what: &str, causes: &BTreeMap<String, u64>| {
        let causes: Vec<String> = causes.keys().map(|cause| cause.replace('_', " ")).collect();
        match causes.is_empty() {
            true => what.to_owned(),
            false => format!("{what}: {} by {target}", causes.join(", ")),
        }
    };
    if total.sent == 0 {
        return Some(causes("no datagram could be sent", &total.refused));
    }
    if !answers || total.returned > 0 {
        return None;
    }
    let [dropped, bad] =
        [total.dropped_here, total.bad_checksum].map(|count| (count > 0).then(|| quantity::count(count)));
    let dropped = dropped.map(|dropped| format!("its own sockets dropped {dropped}"));
    let bad = bad.map(|bad| format!("{bad} came with a bad checksum"));
    let unread: Vec<String> = dropped.into_iter().chain(bad).collect();
    Some(match unread.is_empty() {
        true => causes("no datagram was answered", &total.network_errors),
        false => format!("no answer was read: {}", unread.join(", and ")),
    })
}

/// What the kernel has counted of UDP in this network namespace; `None` if it does not say.
fn udp_counters() -> Option<UdpCounters> {
    Some(UdpStatistics::read().ok()?.total())
}
