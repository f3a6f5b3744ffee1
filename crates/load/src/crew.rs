//! The workers of one TCP generator: started one after the other, they open their connections at once; when all are ready,
//! they begin together.
//!
//! In: settings and a [`Duty`] for each worker. Out: whether all are ready, whether all have ended, and what each found.

use corelane_host::memory::MemoryPolicy;
use corelane_worker::engine::{Engine, EngineBody, EngineKind, EngineSettings, Handler, Waker, run_engine};
use corelane_worker::{CachePadded, SpawnError, Time, Worker, WorkerSettings, spawn};
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use thiserror::Error;

/// From the last worker being ready to the beginning, so that no worker begins late.
const HEAD_START: Duration = Duration::from_millis(2);

/// How often a worker that is ready looks whether the others are, too.
const READY_LOOK: Duration = Duration::from_millis(1);

/// What one worker does, in its thread.
pub(crate) trait Duty: Handler + Sized {
    /// What it has found at its end.
    type Outcome: Send + 'static;

    /// Opens what it needs, or finds out why not.
    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()>;

    /// Does it, from `start` on.
    fn run<E: Engine>(self, engine: &mut E, start: Time) -> io::Result<Self::Outcome>;
}

/// Workers that run. Dropping it lets them end by themselves: their duty must know when.
pub(crate) struct Crew<O> {
    members: Vec<Member<O>>,
    tell: mpsc::Sender<Report>,
    reports: mpsc::Receiver<Report>,
    ready: usize,
    ended: usize,
    /// Whether all were said to be ready.
    told: bool,
}

struct Member<O> {
    waker: Waker,
    start: mpsc::Sender<Time>,
    handle: Worker<Result<O, CrewError>>,
}

/// Why a worker did not start or ended early.
#[derive(Debug, Error)]
pub enum CrewError {
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Its engine failed.
    #[error("worker {worker}: {error}")]
    Worker {
        /// Which one.
        worker: usize,
        /// What the system said.
        error: io::Error,
    },
}

enum Report {
    Ready,
    Ended,
}

/// What there was to be heard of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing in that time.
    Nothing,
    /// The last worker has become ready, or has failed before.
    AllReady,
    /// The last worker has ended.
    AllEnded,
}

impl<O: Send + 'static> Crew<O> {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        let (tell, reports) = mpsc::channel();
        Self {
            members: Vec::new(),
            tell,
            reports,
            ready: 0,
            ended: 0,
            told: false,
        }
    }

    /// Starts one worker a seat, which is its CPU and whether it takes a descriptor table of its own. `make` makes a worker's
    /// duty in its thread, from its place and what it publishes while it is at work; that is returned, in the order of the seats.
    pub(crate) fn start<D, L>(
        &mut self,
        seats: impl IntoIterator<Item = (u32, bool)>,
        memory: MemoryPolicy,
        engine: &(EngineKind, EngineSettings),
        make: impl Fn(usize, Arc<CachePadded<L>>, Time) -> D + Clone + Send + 'static,
    ) -> Result<Vec<Arc<CachePadded<L>>>, CrewError>
    where
        D: Duty<Outcome = O>,
        L: Default + Send + Sync + 'static,
    {
        let start = |(place, (cpu, own_descriptors))| {
            let thread = WorkerSettings {
                name: format!("load {place}"),
                cpu,
                memory,
                own_descriptors,
            };
            let live = Arc::<CachePadded<L>>::default();
            let (make, shown) = (make.clone(), Arc::clone(&live));
            self.add(thread, engine.clone(), move |now| make(place, shown, now))?;
            Ok(live)
        };
        seats.into_iter().enumerate().map(start).collect()
    }

    /// Starts one more worker; `make` makes its duty in its thread.
    fn add<D: Duty<Outcome = O>>(
        &mut self,
        thread: WorkerSettings,
        (kind, settings): (EngineKind, EngineSettings),
        make: impl FnOnce(Time) -> D + Send + 'static,
    ) -> Result<(), CrewError> {
        let worker = self.members.len();
        let fail = move |error| CrewError::Worker { worker, error };
        let (tell_waker, waker) = mpsc::channel();
        let (start, is_started) = mpsc::channel();
        let tell = self.tell.clone();
        let body = Body {
            make,
            waker: tell_waker,
            tell: tell.clone(),
            start: is_started,
        };
        let handle = spawn(thread, move || {
            let outcome = run_engine(kind, &settings, body);
            // The receiver is gone when the crew was dropped.
            let _ = tell.send(Report::Ended);
            outcome.and_then(|outcome| outcome).map_err(fail)
        })?;
        match waker.recv() {
            Ok(waker) => {
                self.members.push(Member { waker, start, handle });
                Ok(())
            }
            Err(_) => {
                let ended_early = || fail(io::Error::other("the worker ended early"));
                Err(joined(handle).err().unwrap_or_else(ended_early))
            }
        }
    }

    /// Waits at most `timeout` for news.
    pub(crate) fn wait(&mut self, timeout: Duration) -> News {
        let deadline = Time::now() + timeout;
        while self.ended < self.members.len() {
            match self.reports.recv_timeout(deadline.since(Time::now())) {
                Ok(Report::Ready) => self.ready += 1,
                Ok(Report::Ended) => self.ended += 1,
                Err(_) => return News::Nothing,
            }
            // One that failed before it was ready must not keep the others waiting.
            if !self.told && self.ready + self.ended >= self.members.len() {
                self.told = true;
                return News::AllReady;
            }
        }
        News::AllEnded
    }

    /// Has all workers begin, after `before` was told when.
    pub(crate) fn begin(&self, before: impl FnOnce(Time)) {
        let start = Time::now() + HEAD_START;
        before(start);
        for member in &self.members {
            // A worker that is gone already tells why when it is joined.
            let _ = member.start.send(start);
        }
    }

    /// Has all workers look up.
    pub(crate) fn wake(&self) {
        for member in &self.members {
            member.waker.wake();
        }
    }

    /// What each has found, in the order in which they were started; waits for them.
    pub(crate) fn finish(self) -> Result<Vec<O>, CrewError> {
        self.members
            .into_iter()
            .map(|member| joined(member.handle))
            .collect()
    }
}

/// A worker's result; its panic goes on here.
fn joined<R>(worker: Worker<R>) -> R {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a worker's thread runs once it is pinned and has its engine.
struct Body<M> {
    make: M,
    waker: mpsc::Sender<Waker>,
    tell: mpsc::Sender<Report>,
    start: mpsc::Receiver<Time>,
}

impl<D: Duty, M: FnOnce(Time) -> D> EngineBody<io::Result<D::Outcome>> for Body<M> {
    fn run<E: Engine>(self, mut engine: E) -> io::Result<D::Outcome> {
        // Both ends of these channels outlive a start that goes well; otherwise the run is being given up.
        let _ = self.waker.send(engine.waker());
        let mut duty = (self.make)(engine.now());
        duty.prepare(&mut engine)?;
        let _ = self.tell.send(Report::Ready);
        // What peers do meanwhile is attended to.
        let start = loop {
            match self.start.try_recv() {
                Ok(start) => break start,
                Err(mpsc::TryRecvError::Empty) => {
                    let look = engine.now() + READY_LOOK;
                    engine.turn(look, &mut duty)?;
                }
                Err(mpsc::TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the run was given up"));
                }
            }
        };
        duty.run(&mut engine, start)
    }
}
