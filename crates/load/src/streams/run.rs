//! A running generator over streams: starts its workers, opens their connections, starts the requests together, reports
//! progress, and sums the results.

use super::error::StreamLoadError;
use super::generator::{Common, Generator as WorkerGenerator, LiveCounters, Outcome};
use super::loaded::{PhaseLoaded, StreamLoaded};
use super::metrics::{self, StreamProgress};
use super::phases::PhaseTimes;
use super::plan::StreamPlan;
use super::protocol::{StreamProtocol, Terms};
use crate::generate::start_workers;
use crate::landed::Observer;
use crate::needs::Sockets;
use crate::showing::{Seen, Showing};
use crate::{Generator, Moment, Needs, Running};
use corelane_host::usage;
use corelane_measure::timeline::Recorder;
use corelane_worker::crew::{Crew, CrewEvent, ReadyCell};
use corelane_worker::engine::Chosen;
use corelane_worker::{CachePadded, Time};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between checks of the counts that may end a phase.
const PHASE_LOOK: Duration = Duration::from_millis(5);

/// A running generator. Dropping it stops it.
pub struct StreamLoad<P: StreamProtocol> {
    common: Arc<Common<P>>,
    pub(super) engine: Chosen,
    crew: Crew<Outcome<P>>,
    pub(super) ready: Vec<ReadyCell>,
    lives: Arc<[CachePadded<LiveCounters>]>,
    pub(super) resident_before: Option<u64>,
    pub(super) resident_open: Option<u64>,
    began: Instant,
    opening: Option<Duration>,
    /// The phase being monitored, and the counts at its beginning.
    phase: Option<(usize, StreamProgress)>,
    pub(super) phases: Vec<PhaseLoaded>,
    pub(super) over_time: Recorder,
}

impl<P: StreamProtocol> Generator for StreamLoad<P> {
    type Plan = StreamPlan<P>;
    type Loaded = StreamLoaded<P>;
    type Error = StreamLoadError;
    const KIND: &'static str = P::NAME;
    const COUNTED: &'static [(&'static str, &'static str)] = match P::IS_TRANSFER {
        true => &[
            ("sent_bytes", "bytes"),
            ("received_bytes", "bytes"),
            ("opened", "connections"),
        ],
        false => &[
            ("sent", "requests"),
            ("ok", "requests"),
            ("failed", "requests"),
            ("sent_bytes", "bytes"),
            ("received_bytes", "bytes"),
            ("opened", "connections"),
        ],
    };
    const TIMED: &'static str = match P::IS_TRANSFER {
        true => "time to open a connection",
        false => "latency",
    };

    fn needs(plan: &Self::Plan) -> Needs {
        let encrypted = plan.pools.iter().filter(|pool| pool.tls.is_some());
        Needs::of(&Sockets {
            leases: (plan.workers.iter())
                .map(|worker| worker.shares.iter().flat_map(|share| &share.leases).collect())
                .collect(),
            own_descriptors: plan.workers.iter().any(|worker| worker.own_descriptors),
            encrypted: encrypted.map(|pool| pool.connections).sum(),
            targets: plan.pools.iter().map(|pool| pool.target.ip()).collect(),
            closes: plan.pools.iter().any(|pool| pool.requests_a_connection.is_some()),
        })
    }

    fn start(plan: Self::Plan) -> Result<Self, StreamLoadError> {
        let crew = Crew::new();
        let lives = plan.workers.iter().map(|_| CachePadded::default()).collect();
        let mut load = Self {
            engine: plan.choose_engine(),
            common: Arc::new(Common {
                terms: Terms::of_plan(&plan)?,
                observer: Observer::of(&plan.steering).map(Arc::new),
                phases: PhaseTimes::new(plan.phases.len()),
                stop: crew.stop_flag(),
                plan,
            }),
            crew,
            ready: Vec::new(),
            lives,
            resident_before: usage::resident_bytes(),
            resident_open: None,
            began: Instant::now(),
            opening: None,
            phase: None,
            phases: Vec::new(),
            over_time: Recorder::default(),
        };
        let plan = &load.common.plan;
        let engine = (load.engine.kind, plan.engine_settings());
        let workers = plan
            .workers
            .iter()
            .map(|worker| (worker.cpu, worker.own_descriptors));
        let (common, lives) = (Arc::clone(&load.common), Arc::clone(&load.lives));
        let job = move |place, now| WorkerGenerator::new(Arc::clone(&common), place, Arc::clone(&lives), now);
        load.ready = start_workers(&mut load.crew, workers, plan.memory, &engine, job)?;
        Ok(load)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Time::now() + timeout;
        loop {
            self.watch_phases(Time::now());
            self.record();
            let left = deadline.since(Time::now());
            let look = if self.watches_counts() {
                left.min(PHASE_LOOK)
            } else {
                left
            };
            match self.crew.wait(look) {
                CrewEvent::AllReady => self.begin(),
                CrewEvent::AllEnded => return true,
                CrewEvent::Nothing if look < left => {}
                CrewEvent::Nothing => return false,
            }
        }
    }

    fn reached(&self) -> Option<Moment> {
        let progress = self.progress();
        match (progress.opening, progress.draining) {
            (true, _) => None,
            (false, false) => Some(Moment::Opened),
            (false, true) => Some(Moment::Sent),
        }
    }

    fn shows(&self) -> impl Iterator<Item = &Showing> {
        self.lives.iter().map(|live| &live.shown)
    }

    /// Times are latencies, or for transfers the times to open connections.
    fn seen(&mut self) -> Seen {
        let mut seen = Seen::sum(self.shows().map(Showing::last));
        let start = self.common.phases.began(0);
        if seen.at > start && !P::IS_TRANSFER {
            self.over_time
                .times(seen.at.since(start).as_secs_f64(), &seen.times);
        }
        let progress = self.progress();
        seen.stage = match self.phase() {
            _ if progress.draining => "draining".to_owned(),
            Some((place, _)) => self.plan().phases[place].name.clone(),
            None if progress.opening => "opening".to_owned(),
            None => "ending".to_owned(),
        };
        seen
    }

    fn stop(&self) {
        self.crew.stop();
    }

    fn finish(mut self) -> Result<Self::Loaded, StreamLoadError> {
        let outcomes = self.outcomes()?;
        Ok(self.add_up(&outcomes))
    }
}

impl<P: StreamProtocol> StreamLoad<P> {
    /// Waits for the end; returns the outcome of each worker.
    pub(crate) fn outcomes(&mut self) -> Result<Vec<Outcome<P>>, StreamLoadError> {
        while !self.wait(Duration::from_secs(1)) {}
        self.end_phase(Time::now().min(self.common.phases.end()));
        Ok(self.crew.finish()?)
    }

    /// Time spent opening connections so far.
    pub(super) fn opening(&self) -> Duration {
        self.opening.unwrap_or_else(|| self.began.elapsed())
    }

    /// Progress over all workers.
    #[must_use]
    pub fn progress(&self) -> StreamProgress {
        let mut sum = StreamProgress {
            opening: self.opening.is_none(),
            draining: self.lives.iter().all(|live| live.draining.get() > 0),
            ..StreamProgress::default()
        };
        for worker in self.live_counts() {
            sum.open += worker.open;
            sum.sent += worker.sent;
            sum.ok += worker.ok;
            sum.failed += worker.failed;
            sum.sent_bytes += worker.sent_bytes;
            sum.received_bytes += worker.received_bytes;
            sum.stalled += worker.stalled;
        }
        sum
    }

    /// Counts of each worker.
    fn live_counts(&self) -> impl Iterator<Item = StreamProgress> {
        self.lives.iter().map(|live| StreamProgress {
            open: live.open.get(),
            sent: live.sent.get(),
            ok: live.ok.get(),
            failed: live.failed.get(),
            sent_bytes: live.sent_bytes.get(),
            received_bytes: live.received_bytes.get(),
            stalled: live.stalled.get(),
            ..StreamProgress::default()
        })
    }

    /// The metrics of the run so far, with live data that was [`seen`](Generator::seen).
    #[must_use]
    pub fn running(&self, seen: &Seen) -> Running<StreamProgress> {
        let cpus = self.common.plan.workers.iter().map(|worker| worker.cpu);
        let (metrics, times) = match P::IS_TRANSFER {
            true => (&metrics::OF_TRANSFERS[..], &metrics::CONNECT),
            false => (&metrics::OF_REQUESTS[..], &metrics::LATENCY),
        };
        Running {
            kind: P::NAME,
            metrics,
            workers: cpus.zip(self.live_counts()).collect(),
            times: Some((times, seen.times.clone())),
            failures: vec![
                (&metrics::FAILURES, seen.failures.named("")),
                (&metrics::NOT_OPENED, seen.not_opened.named("")),
            ],
        }
    }

    /// Records the rate, while requests are made.
    fn record(&mut self) {
        let (start, now) = (self.common.phases.began(0), Time::now());
        let at_s = now.since(start).as_secs_f64();
        if now <= start || !self.over_time.is_due(at_s) {
            return;
        }
        let progress = self.progress();
        if !progress.draining {
            let total = match P::IS_TRANSFER {
                true => progress.sent_bytes + progress.received_bytes,
                false => progress.ok,
            };
            self.over_time.count(at_s, total);
        }
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

    /// Whether the current phase may end by counts.
    fn watches_counts(&self) -> bool {
        let phases = &self.common.plan.phases;
        let phase = self.phase.and_then(|(phase, _)| phases.get(phase));
        phase.is_some_and(|phase| phase.until.requests.is_some() || phase.until.failures.is_some())
    }

    /// Detects the end of a phase, and ends it when its counts are reached.
    fn watch_phases(&mut self, now: Time) {
        let Some((phase, before)) = self.phase else {
            return;
        };
        let (progress, plan) = (self.progress(), &self.common.plan);
        let reached =
            |count: Option<u64>, now: u64, before: u64| count.is_some_and(|count| now - before >= count);
        if let Some(until) = plan.phases.get(phase).map(|phase| phase.until)
            && (reached(until.requests, progress.ok, before.ok)
                || reached(until.failures, progress.failed, before.failed))
            && self.common.phases.began(phase + 1) > now
        {
            self.common.phases.begin(phase + 1, now, &plan.phases);
            self.crew.wake();
        }
        if self.common.phases.began(phase + 1) <= now {
            self.end_phase(self.common.phases.began(phase + 1));
            self.phase = Some((phase + 1, progress));
            self.watch_phases(now);
        }
    }

    /// Records the results of the current phase.
    fn end_phase(&mut self, ended: Time) {
        let Some((phase, before)) = self.phase else {
            return;
        };
        let (times, progress) = (&self.common.phases, self.progress());
        if let Some(planned) = self.common.plan.phases.get(phase) {
            let since = |time: Time| time.since(times.began(0)).as_secs_f64();
            self.phases.push(PhaseLoaded {
                name: planned.name.clone(),
                began_s: since(times.began(phase)),
                ended_s: since(ended),
                ok: progress.ok - before.ok,
                failed: progress.failed - before.failed,
            });
        }
    }

    /// All connections are open or have failed: requests begin.
    fn begin(&mut self) {
        self.opening = Some(self.began.elapsed());
        self.resident_open = usage::resident_bytes();
        if self.progress().open == 0 {
            // Nothing can be measured; the report states the reason.
            self.stop();
        }
        let (phases, plan) = (&self.common.phases, &self.common.plan);
        self.crew.begin(|start| phases.begin(0, start, &plan.phases));
        self.phase = Some((0, StreamProgress::default()));
    }
}
