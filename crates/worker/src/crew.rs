//! The threads of one server or generator: started pinned, started together, stopped and joined together.
//!
//! Input: jobs for engines, and bodies of threads without one. Output: each thread's result, or the first failure with
//! its thread's name. A thread that fails or panics stops the others.

use crate::engine::{Engine, EngineBody, EngineKind, EngineSettings, Handler, Waker, run_engine};
use crate::memory::Buffers;
use crate::{SpawnError, Time, Worker, WorkerSettings, spawn, spawn_with};
use std::any::Any;
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

/// Delay from [`Crew::begin`] to the start time, so that no thread starts late: waking an idle CPU takes some 100 µs.
const HEAD_START: Duration = Duration::from_millis(2);

/// The timeout of a thread's engine while it waits for the start: [`Crew::begin`] wakes it.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// A job that runs on one thread with its engine.
pub trait Job: Handler + Sized {
    /// The result.
    type Outcome: Send + 'static;

    /// Opens the required resources. The thread is then ready; it handles events until the start.
    ///
    /// # Errors
    /// The error that prevents it.
    fn prepare<E: Engine>(&mut self, engine: &mut E) -> io::Result<()>;

    /// Runs until done, or until the crew's [stop flag](Crew::stop_flag) is set. If the crew is stopped before it
    /// begins, `start` is the time of the stop.
    ///
    /// # Errors
    /// The error that ended it early.
    fn run<E: Engine>(self, engine: &mut E, start: Time) -> io::Result<Self::Outcome>;
}

/// The handles of a thread that has its engine and is ready.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Wakes the thread's engine.
    pub waker: Waker,
    /// The memory of the thread's engine.
    pub buffers: Buffers,
}

/// A cell that is filled when the thread is ready.
pub type ReadyCell = Arc<OnceLock<Ready>>;

/// Why a crew did not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// A thread could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A job failed.
    #[error("{thread}: {error}")]
    Failed {
        /// The thread's name.
        thread: String,
        /// The error.
        error: io::Error,
    },
    /// A thread panicked.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// The thread's name.
        thread: String,
        /// The panic's message.
        message: String,
    },
}

impl CrewError {
    /// The error of type `E` that a thread failed with, as [`io::Error::other`] wraps it.
    ///
    /// # Errors
    /// This error, if it is of another type.
    pub fn downcast<E: Error + Send + Sync + 'static>(self) -> Result<E, Self> {
        match self {
            Self::Failed { thread, error } => {
                error.downcast().map_err(|error| Self::Failed { thread, error })
            }
            other => Err(other),
        }
    }
}

/// The result of waiting for a crew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrewEvent {
    /// Timeout.
    Nothing,
    /// The last thread has become ready or has ended early.
    AllReady,
    /// The last thread has ended.
    AllEnded,
}

/// Threads that run together. Dropping it stops them and waits for them.
#[derive(Debug)]
pub struct Crew<R> {
    threads: Vec<Worker<io::Result<R>>>,
    shared: Arc<Shared>,
    reports: mpsc::Receiver<Report>,
    report: mpsc::Sender<Report>,
    ready: usize,
    ended: usize,
    /// Whether [`CrewEvent::AllReady`] was returned.
    all_ready: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    start: OnceLock<Time>,
    /// One cell per thread that has an engine.
    cells: Mutex<Vec<ReadyCell>>,
    /// Which thread failed first.
    failed: OnceLock<usize>,
}

#[derive(Debug)]
enum Report {
    Ready,
    Ended,
}

impl<R: Send + 'static> Crew<R> {
    /// A crew without threads.
    #[must_use]
    pub fn new() -> Self {
        let (report, reports) = mpsc::channel();
        Self {
            threads: Vec::new(),
            shared: Arc::default(),
            reports,
            report,
            ready: 0,
            ended: 0,
            all_ready: false,
        }
    }

    /// Starts a thread with an engine, and returns before it is ready. `make` creates the job on the thread, from the
    /// descriptors passed (see [`spawn_with`]) and the engine's time.
    ///
    /// # Errors
    /// If the thread cannot be started. [`finish`](Self::finish) returns later failures.
    pub fn start<J: Job<Outcome = R>>(
        &mut self,
        thread: WorkerSettings,
        descriptors: Vec<OwnedFd>,
        (kind, settings): (EngineKind, EngineSettings),
        make: impl FnOnce(Vec<OwnedFd>, Time) -> J + Send + 'static,
    ) -> Result<ReadyCell, CrewError> {
        let cell = ReadyCell::default();
        self.shared.cells().push(Arc::clone(&cell));
        let (exit, report, ready) = (self.exit(), self.report.clone(), Arc::clone(&cell));
        let worker = spawn_with(thread, descriptors, move |descriptors| {
            let body = Body {
                make: |now| make(descriptors, now),
                shared: Arc::clone(&exit.shared),
                ready,
                report,
            };
            exit.run(|| run_engine(kind, &settings, body)?)
        })?;
        self.threads.push(worker);
        Ok(cell)
    }

    /// Starts a thread without an engine, which runs `body` at once; the body has to poll the [stop
    /// flag](Self::stop_flag).
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn spawn(
        &mut self,
        thread: WorkerSettings,
        body: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Result<(), CrewError> {
        let exit = self.exit();
        self.threads.push(spawn(thread, move || exit.run(body))?);
        self.ready += 1;
        Ok(())
    }

    /// Set when the threads must end.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.stop)
    }

    /// Waits at most `timeout` for the next event.
    pub fn wait(&mut self, timeout: Duration) -> CrewEvent {
        let deadline = Time::now() + timeout;
        while self.ended < self.threads.len() {
            match self.reports.recv_timeout(deadline.since(Time::now())) {
                Ok(Report::Ready) => self.ready += 1,
                Ok(Report::Ended) => self.ended += 1,
                Err(_) => return CrewEvent::Nothing,
            }
            // A thread that failed before it was ready must not keep the others waiting.
            if !self.all_ready && self.ready + self.ended >= self.threads.len() {
                self.all_ready = true;
                return CrewEvent::AllReady;
            }
        }
        CrewEvent::AllEnded
    }

    /// Waits until all threads are ready, then starts them.
    ///
    /// # Errors
    /// If a thread failed; all have ended then.
    pub fn begin_when_ready(&mut self) -> Result<Time, CrewError> {
        while self.wait(Duration::from_secs(1)) == CrewEvent::Nothing {}
        match self.shared.failed.get() {
            None => Ok(self.begin(|_| {})),
            Some(_) => Err(self.finish().err().expect("a thread has failed")),
        }
    }

    /// Starts all threads, after calling `before` with the start time.
    pub fn begin(&self, before: impl FnOnce(Time)) -> Time {
        let start = Time::now() + HEAD_START;
        before(start);
        let start = *self.shared.start.get_or_init(|| start);
        self.wake();
        start
    }

    /// Makes all engines return from their turn.
    pub fn wake(&self) {
        self.shared.wake();
    }

    /// Requests all threads to end.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Whether all threads have ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(Worker::is_finished)
    }

    /// Waits for all threads. Returns their results in the order in which they were started; empty if called again.
    ///
    /// # Errors
    /// The failure or panic of the thread that failed first.
    pub fn finish(&mut self) -> Result<Vec<R>, CrewError> {
        let first_failed = self.shared.failed.get().copied();
        let (mut outcomes, mut failure) = (Vec::new(), None);
        for (place, worker) in self.threads.drain(..).enumerate() {
            match outcome(worker) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) if failure.is_none() || first_failed == Some(place) => failure = Some(error),
                Err(_) => {}
            }
        }
        failure.map_or(Ok(outcomes), Err)
    }

    /// The guard of the next thread.
    fn exit(&self) -> Exit {
        Exit {
            shared: Arc::clone(&self.shared),
            place: self.threads.len(),
            report: self.report.clone(),
            failed: true,
        }
    }
}

impl<R: Send + 'static> Default for Crew<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Drop for Crew<R> {
    fn drop(&mut self) {
        self.shared.stop();
        for worker in self.threads.drain(..) {
            // Errors are available from `finish`.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn cells(&self) -> std::sync::MutexGuard<'_, Vec<ReadyCell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        for ready in self.cells().iter().filter_map(|cell| cell.get()) {
            ready.waker.wake();
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }
}

/// Joins a thread.
fn outcome<R>(worker: Worker<io::Result<R>>) -> Result<R, CrewError> {
    let thread = worker.name().to_owned();
    match worker.join() {
        Ok(outcome) => outcome.map_err(|error| CrewError::Failed { thread, error }),
        Err(panic) => Err(CrewError::Panicked {
            thread,
            message: message(panic.as_ref()),
        }),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// Reports a thread's end, however it ends, and stops the others if it failed.
struct Exit {
    shared: Arc<Shared>,
    place: usize,
    report: mpsc::Sender<Report>,
    failed: bool,
}

impl Exit {
    fn run<R>(mut self, body: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let outcome = body();
        self.failed = outcome.is_err();
        outcome
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        if self.failed {
            let _ = self.shared.failed.set(self.place);
            self.shared.stop();
        }
        // The receiver is gone when the crew was dropped.
        let _ = self.report.send(Report::Ended);
    }
}

/// What a thread runs once it is pinned and has its engine.
struct Body<M> {
    make: M,
    shared: Arc<Shared>,
    ready: ReadyCell,
    report: mpsc::Sender<Report>,
}

impl<J: Job, M: FnOnce(Time) -> J> EngineBody<io::Result<J::Outcome>> for Body<M> {
    fn run<E: Engine>(self, mut engine: E) -> io::Result<J::Outcome> {
        // Before the job is prepared, so that a stop meanwhile wakes it.
        let _ = self.ready.set(Ready {
            waker: engine.waker(),
            buffers: engine.buffers(),
        });
        let mut job = (self.make)(engine.now());
        job.prepare(&mut engine)?;
        let _ = self.report.send(Report::Ready);
        loop {
            if let Some(start) = self.shared.start.get() {
                return job.run(&mut engine, *start);
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                let now = engine.now();
                return job.run(&mut engine, now);
            }
            let until = engine.now() + LONGEST_WAIT;
            engine.turn(until, &mut job)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Event, Id, Ops};
    use nix::sched::{CpuSet, sched_getaffinity};
    use nix::unistd::Pid;

    /// A job that turns until it is stopped, or fails on request.
    struct Turning {
        stop: Arc<AtomicBool>,
        prepared: io::Result<()>,
        panics: bool,
    }

    impl Handler for Turning {
        fn event(&mut self, _ops: &mut Ops, _now: Time, _id: Id, _event: Event<'_>) {}
    }

    impl Job for Turning {
        type Outcome = Time;

        fn prepare<E: Engine>(&mut self, _engine: &mut E) -> io::Result<()> {
            std::mem::replace(&mut self.prepared, Ok(()))
        }

        fn run<E: Engine>(mut self, engine: &mut E, start: Time) -> io::Result<Time> {
            assert!(!self.panics, "on request");
            while !self.stop.load(Ordering::Relaxed) {
                engine.turn(Time::NEVER, &mut self)?;
            }
            Ok(start)
        }
    }

    fn settings(name: &str) -> WorkerSettings {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap());
        WorkerSettings::new(name, cpu.unwrap() as u32)
    }

    fn add(crew: &mut Crew<Time>, name: &str, prepared: io::Result<()>, panics: bool) {
        let stop = crew.stop_flag();
        let make = move |_, _| Turning {
            stop,
            prepared,
            panics,
        };
        let engine = (EngineKind::Epoll, EngineSettings::default());
        crew.start(settings(name), Vec::new(), engine, make).unwrap();
    }

    fn wait_until_ended(crew: &mut Crew<Time>) {
        while crew.wait(Duration::from_secs(1)) != CrewEvent::AllEnded {}
    }

    #[test]
    fn threads_begin_at_one_time_and_end_when_they_are_stopped() {
        let mut crew = Crew::new();
        add(&mut crew, "one", Ok(()), false);
        add(&mut crew, "two", Ok(()), false);
        let start = crew.begin_when_ready().unwrap();
        assert_eq!(crew.wait(Duration::ZERO), CrewEvent::Nothing);
        assert!(!crew.is_finished());
        crew.stop();
        wait_until_ended(&mut crew);
        assert_eq!(crew.finish().unwrap(), [start, start]);
    }

    #[test]
    fn one_that_cannot_be_prepared_is_named_and_ends_the_others() {
        let mut crew = Crew::new();
        add(&mut crew, "well", Ok(()), false);
        add(&mut crew, "ill", Err(io::Error::other("no room")), false);
        let error = crew.begin_when_ready().unwrap_err();
        assert_eq!(error.to_string(), "ill: no room");
        assert!(crew.is_finished());
    }

    #[test]
    fn a_panic_is_named_and_ends_the_others() {
        let mut crew = Crew::new();
        add(&mut crew, "well", Ok(()), false);
        add(&mut crew, "ill", Ok(()), true);
        crew.begin_when_ready().unwrap();
        wait_until_ended(&mut crew);
        let error = crew.finish().unwrap_err();
        assert_eq!(error.to_string(), "ill panicked: on request");
    }

    #[test]
    fn a_stop_before_the_begin_ends_threads_that_wait_for_it() {
        let mut crew = Crew::new();
        add(&mut crew, "one", Ok(()), false);
        assert_eq!(crew.wait(Duration::MAX), CrewEvent::AllReady);
        crew.stop();
        wait_until_ended(&mut crew);
        assert_eq!(crew.finish().unwrap().len(), 1);
    }

    #[test]
    fn an_error_of_a_body_without_an_engine_keeps_its_type() {
        let mut crew = Crew::<()>::new();
        let error = CrewError::Panicked {
            thread: "other".to_owned(),
            message: String::new(),
        };
        let unpinned = WorkerSettings {
            cpu: None,
            ..settings("plain")
        };
        crew.spawn(unpinned, move || Err(io::Error::other(error)))
            .unwrap();
        let failed = crew.finish().unwrap_err();
        assert!(matches!(
            failed.downcast::<CrewError>(),
            Ok(CrewError::Panicked { .. })
        ));
    }
}
