//! A running generator over streams: starts its workers, opens their connections, starts the requests together, reports
//! progress, and sums the results.

use super::document::{PhaseReport, StreamLoadReport};
use super::error::StreamLoadError;
use super::generator::{Common, Generator as WorkerGenerator, Outcome};
use super::metrics::{self, LiveStreams};
use super::phases::PhaseTimes;
use super::plan::StreamPlan;
use super::protocol::{StreamProtocol, Terms, Traffic};
use super::quota::Quotas;
use crate::alignment::Observer;
use crate::live::{LiveWorkers, Snapshot};
use crate::needs::Sockets;
use crate::team::Team;
use crate::{Generator, Moment, Needs};
use corelane_host::usage;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_worker::Time;
use corelane_worker::crew::CrewEvent;
use corelane_worker::engine::Chosen;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between checks of the counts that may end a phase.
const PHASE_LOOK: Duration = Duration::from_millis(5);

/// A running generator. Dropping it stops it.
pub struct StreamLoad<P: StreamProtocol> {
    common: Arc<Common<P>>,
    pub(super) engine: Chosen,
    pub(super) team: Team<LiveStreams, Outcome<P>>,
    pub(super) resident_before: Option<u64>,
    pub(super) resident_open: Option<u64>,
    began: Instant,
    opening: Option<Duration>,
    /// The phase being monitored, and [`settled`](Self::settled) at its beginning.
    phase: Option<(usize, [u64; 2])>,
    pub(super) phases: Vec<PhaseReport>,
}

/// A protocol whose generator can be started.
pub trait StreamStart: StreamProtocol {
    /// Starts a generator: [`StreamLoad::of_plan`]. Not a provided method, because it must not be generic: the loops of the workers are
    /// compiled with the protocol, once, instead of with every program that starts them.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    fn start(plan: StreamPlan<Self>) -> Result<StreamLoad<Self>, StreamLoadError<Self::Error>>;
}

impl<P: StreamStart> Generator for StreamLoad<P> {
    type Plan = StreamPlan<P>;
    type Report = StreamLoadReport<P>;
    type Error = StreamLoadError<P::Error>;
    type Counts = LiveStreams;
    const KIND: &'static str = P::NAME;
    const COUNTED: &'static [Metric<LiveStreams>] = P::Traffic::COUNTED;
    const TIMED: Option<&'static Metric<Histogram>> = Some(P::Traffic::TIMED);
    const FAILED: &'static [Metric<u64>] = &metrics::FAILED;

    fn needs(plan: &Self::Plan) -> Needs {
        let encrypted = plan.pools.iter().filter(|pool| pool.tls.is_some());
        Needs::of(&Sockets {
            leases: (plan.workers.iter())
                .map(|worker| worker.shares.iter().flat_map(|share| &share.leases).collect())
                .collect(),
            own_descriptors: plan.workers.iter().any(|worker| worker.own_descriptors),
            encrypted: encrypted.map(|pool| pool.connections).sum(),
            targets: (plan.pools.iter())
                .filter_map(|pool| Some(pool.target.address()?.ip()))
                .collect(),
            // The pools share what is known.
            state_bytes: (plan.pools.iter())
                .map(|pool| pool.protocol.state_bytes())
                .max()
                .unwrap_or(0),
            counts_bytes: plan.pools.iter().map(|pool| pool.protocol.counts_bytes()).sum(),
            closes: plan.pools.iter().any(|pool| pool.requests_a_connection.is_some()),
        })
    }

    fn start(plan: Self::Plan) -> Result<Self, StreamLoadError<P::Error>> {
        P::start(plan)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Time::now() + timeout;
        loop {
            self.watch_phases(Time::now());
            self.team.record(self.common.phases.began(0), P::Traffic::RATE);
            let left = deadline.since(Time::now());
            let look = match self.common.quotas {
                Some(_) => left.min(PHASE_LOOK),
                None => left,
            };
            match self.team.crew.wait(look) {
                CrewEvent::AllReady => self.begin(),
                CrewEvent::AllEnded => return true,
                CrewEvent::Nothing if look < left => {}
                CrewEvent::Nothing => return false,
            }
        }
    }

    fn reached(&self) -> Option<Moment> {
        match (self.is_opening(), self.is_draining()) {
            (true, _) => None,
            (false, false) => Some(Moment::Opened),
            (false, true) => Some(Moment::Sent),
        }
    }

    fn live_workers(&self) -> &LiveWorkers<LiveStreams> {
        &self.team.live
    }

    /// Times are latencies, or for transfers the times to open connections.
    fn snapshot(&mut self) -> Snapshot {
        let stage = match self.phase() {
            _ if self.is_draining() => "draining".to_owned(),
            Some((place, _)) => self.plan().phases[place].name.clone(),
            None if self.is_opening() => "opening".to_owned(),
            None => "ending".to_owned(),
        };
        let timed_from = (!P::Traffic::LASTS).then(|| self.common.phases.began(0));
        Snapshot {
            stage,
            ..self.team.snapshot(timed_from)
        }
    }

    fn stop(&self) {
        self.team.crew.stop();
    }

    fn finish(mut self) -> Result<Self::Report, StreamLoadError<P::Error>> {
        let outcomes = self.outcomes()?;
        Ok(self.add_up(&outcomes))
    }
}

impl<P: StreamStart> StreamLoad<P> {
    /// Starts the workers of a plan.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    pub fn of_plan(plan: StreamPlan<P>) -> Result<Self, StreamLoadError<P::Error>> {
        let mut team = Team::on(plan.workers.iter().map(|worker| worker.cpu));
        let queued = plan.pools.iter().map(|pool| pool.protocol.queued_bytes());
        let settings = plan.engine_settings(queued.max().unwrap_or(0));
        let engine = plan.choose_engine(&settings)?;
        let common = Arc::new(Common {
            terms: Terms::of_plan(&plan)?,
            observer: Observer::of(&plan.steering).map(Arc::new),
            phases: PhaseTimes::new(plan.phases.len()),
            quotas: Quotas::of(&plan.phases).map(Arc::new),
            stop: team.crew.stop_flag(),
            plan,
        });
        let (resident_before, began) = (usage::resident_bytes(), Instant::now());
        let (plan, for_workers, live) = (&common.plan, Arc::clone(&common), Arc::clone(&team.live));
        team.start(
            plan.workers.iter().map(|worker| worker.own_descriptors),
            plan.memory,
            &(engine.kind, settings),
            move |place, now| WorkerGenerator::new(Arc::clone(&for_workers), place, Arc::clone(&live), now),
        )?;
        Ok(Self {
            common,
            engine,
            team,
            resident_before,
            resident_open: None,
            began,
            opening: None,
            phase: None,
            phases: Vec::new(),
        })
    }

    /// Waits for the end; returns the outcome of each worker.
    pub(crate) fn outcomes(&mut self) -> Result<Vec<Outcome<P>>, StreamLoadError<P::Error>> {
        while !self.wait(Duration::from_secs(1)) {}
        self.end_phase(Time::now().min(self.common.phases.end()), self.settled());
        Ok(self.team.crew.finish()?)
    }

    /// Time spent opening connections so far.
    pub(super) fn opening(&self) -> Duration {
        self.opening.unwrap_or_else(|| self.began.elapsed())
    }

    /// Whether connections are still being opened before the run.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.opening.is_none()
    }

    /// Whether no more requests are made: last answers are awaited, and connections closed. For transfers: whether
    /// their last bytes have arrived.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.team.is_draining()
    }

    /// Requests so far that were answered as expected, and that failed.
    fn settled(&self) -> [u64; 2] {
        [LiveStreams::OK, LiveStreams::FAILED].map(|counted| self.total(&counted))
    }

    /// The index of the current phase in the plan; and the time left of the run, or of this phase if the former is
    /// unknown.
    #[must_use]
    pub fn phase(&self) -> Option<(usize, Option<Duration>)> {
        let (phase, _) = self.phase?;
        self.common.plan.phases.get(phase)?;
        let times = &self.common.phases;
        let end = times.end().min(times.began(phase + 1));
        let end = if times.end() < Time::NEVER {
            times.end()
        } else {
            end
        };
        Some((phase, (end < Time::NEVER).then(|| end.since(Time::now()))))
    }

    /// The plan of the run.
    #[must_use]
    pub fn plan(&self) -> &StreamPlan<P> {
        &self.common.plan
    }

    /// Detects the end of a phase, and ends it when its counts are reached.
    fn watch_phases(&mut self, now: Time) {
        let Some((phase, _)) = self.phase else {
            return;
        };
        let common = &self.common;
        let is_over = |quotas: &Arc<Quotas>| phase < common.plan.phases.len() && quotas.is_over(phase);
        let is_over = common.phases.began(phase + 1) > now && common.quotas.as_ref().is_some_and(is_over);
        // All that have ended are published, and the next phase has not begun.
        let settled = self.settled();
        if is_over {
            common.phases.begin(phase + 1, now, &common.plan.phases);
            self.team.crew.wake();
        }
        if self.common.phases.began(phase + 1) <= now {
            self.end_phase(self.common.phases.began(phase + 1), settled);
            self.phase = Some((phase + 1, settled));
            self.watch_phases(now);
        }
    }

    /// Records the results of the current phase, at whose end so many requests were [`settled`](Self::settled).
    fn end_phase(&mut self, ended: Time, settled: [u64; 2]) {
        let Some((phase, before)) = self.phase else {
            return;
        };
        let [ok, failed] = settled.since(&before);
        let times = &self.common.phases;
        let begun = |quotas: &Arc<Quotas>| quotas.begun(phase);
        if let Some(planned) = self.common.plan.phases.get(phase) {
            let since = |time: Time| time.since(times.began(0)).as_secs_f64();
            self.phases.push(PhaseReport {
                name: planned.name.clone(),
                began_s: since(times.began(phase)),
                ended_s: since(ended),
                begun: (planned.until.requests).and(self.common.quotas.as_ref().and_then(begun)),
                ok,
                failed,
            });
        }
    }

    /// All connections are open or have failed: requests begin.
    fn begin(&mut self) {
        self.opening = Some(self.began.elapsed());
        self.resident_open = usage::resident_bytes();
        if self.total(&LiveStreams::OPEN) == 0 {
            // Nothing can be measured; the report states the reason.
            self.stop();
        }
        let (phases, plan) = (&self.common.phases, &self.common.plan);
        self.team.crew.begin(|start| phases.begin(0, start, &plan.phases));
        self.phase = Some((0, [0; 2]));
    }
}
