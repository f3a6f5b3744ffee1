//! A server or a generator as a child process: both ends of the pipe.

use super::parent::Child;
use super::watch::Watch;
use super::{Answer, LOOK_INTERVAL, Order, Output, SERVER, answer, read_plan, words};
use corelane_host::bed::Side;
use corelane_load::{Generator, Moment, Sampler};
use corelane_rss::IndirectionTable;
use corelane_serve::Server;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Poll interval of a generator: idle time after its last datagram counts as part of the trial, and 2 ms are 1 % of the
/// shortest trials in tests.
const SENDING_LOOK: Duration = Duration::from_millis(2);

/// Interval between polls of a server's counts that are not final.
const SETTLING_LOOK: Duration = Duration::from_millis(2);

/// Timeout of these polls: what sockets hold is read, and counted, within milliseconds by a worker that has a CPU.
const LONGEST_SETTLING: Duration = Duration::from_secs(5);

/// A generator in a process of its own.
pub struct LoadProcess<G: Generator> {
    child: Child,
    kind: std::marker::PhantomData<G>,
}

impl<G: Generator> LoadProcess<G> {
    /// Starts `program` as a generator on `side`, which waits for its plan.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, side: &Side) -> anyhow::Result<Self> {
        Ok(Self {
            child: Child::start(program, side, "generator", false)?,
            kind: std::marker::PhantomData,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Sends as planned and waits for the report; ends it early when the interrupt flag is set. `reached` is called at
    /// each [`Moment`] of the run, in their order.
    ///
    /// # Errors
    /// If it is gone, or its own error.
    pub fn run(
        mut self,
        plan: &G::Plan,
        Watch { interrupt, lines }: Watch<'_>,
        mut reached: impl FnMut(Moment),
    ) -> anyhow::Result<G::Report> {
        self.child.run(G::KIND, plan, lines.is_some())?;
        let mut stopping = false;
        loop {
            match self.child.look()? {
                Some(Answer::Reached(moment)) => reached(moment),
                Some(Answer::Second(mut second)) => {
                    if let Some((file, trial)) = lines {
                        second.trial = Some(trial.clone());
                        file.write::<G>(&second);
                    }
                }
                Some(Answer::Report(loaded)) => return self.child.read(loaded),
                Some(_) => return Err(self.child.failed("unexpected answer")),
                None if interrupt.load(Ordering::Relaxed) && !stopping => {
                    self.child.give(Order::Stop);
                    stopping = true;
                }
                None => {}
            }
        }
    }
}

/// The child's side.
pub(crate) fn generate<G: Generator>(
    (plan, lines): (Box<RawValue>, bool),
    orders: &mpsc::Receiver<Order>,
    output: &Output<'_>,
) -> Result<(), String> {
    let plan = read_plan(plan)?;
    // Before anything is allocated for its connections.
    if let Some(lacking) = G::needs(&plan).lacking_memory() {
        return Err(lacking.text());
    }
    let mut load = G::start(plan).map_err(words)?;
    let mut sampler = lines.then(|| Sampler::new(true));
    let mut reported = None;
    loop {
        let done = load.wait(SENDING_LOOK);
        let line = sampler.as_mut().and_then(|sampler| match done {
            true => sampler.end(&mut load),
            false => sampler.look(&mut load)?.second,
        });
        if let Some(line) = line {
            answer(output, &Answer::Second(Box::new(line)))?;
        }
        let reached = load.reached();
        if let Some(moment) = reached.filter(|_| reached != reported) {
            answer(output, &Answer::Reached(moment))?;
            reported = reached;
        }
        if done {
            break;
        }
        match orders.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            Ok(_) => load.stop(),
            Err(mpsc::TryRecvError::Disconnected) => {
                // No one reads its report: the process ends without waiting for the last responses.
                std::mem::forget(load);
                return Ok(());
            }
        }
    }
    let loaded = Answer::report(&load.finish().map_err(words)?);
    if reported != Some(Moment::Sent) {
        answer(output, &Answer::Reached(Moment::Sent))?;
    }
    answer(output, &loaded)
}

/// A server in a process of its own.
pub struct ServerProcess<S: Server> {
    child: Child,
    ready: S::Served,
}

impl<S: Server> ServerProcess<S> {
    /// Starts `program` as a server on `side`; returns when it is ready to receive.
    ///
    /// # Errors
    /// If it cannot be started, its own error if it could not serve, or once `interrupt` is set.
    pub fn start(
        program: &Path,
        side: &Side,
        plan: &S::Plan,
        interrupt: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let mut child = Child::start(program, side, "server", S::STARTS_PROCESSES)?;
        child.run(&format!("{}{SERVER}", S::NAME), plan, false)?;
        let ready = child.report(interrupt)?;
        Ok(Self { child, ready })
    }

    /// Its first report: its address, engine and steering document.
    pub(crate) fn ready(&self) -> &S::Served {
        &self.ready
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Its counts so far.
    ///
    /// # Errors
    /// When it is gone.
    pub fn served(&mut self) -> anyhow::Result<S::Served> {
        self.ask(Order::Counts)
    }

    /// Reads counts until `is_settled` accepts them, given how long they have not changed, or for five seconds;
    /// `counted` takes what is compared out of a report.
    ///
    /// Time is the sum of the waits between the readings: when the whole machine stops for a while, as a virtual machine
    /// may, the server's workers had no CPU either, and no time counts.
    ///
    /// # Errors
    /// When the server is gone, or the error of `is_settled`.
    pub fn settled<C: PartialEq>(
        &mut self,
        counted: impl Fn(&S::Served) -> C,
        is_settled: impl Fn(&C, Duration) -> anyhow::Result<bool>,
    ) -> anyhow::Result<S::Served> {
        let (mut waited, mut still) = (Duration::ZERO, Duration::ZERO);
        let mut served = self.served()?;
        let mut counts = counted(&served);
        while !is_settled(&counts, still)? && waited < LONGEST_SETTLING {
            thread::sleep(SETTLING_LOOK);
            served = self.served()?;
            let now = counted(&served);
            (still, waited) = (still + SETTLING_LOOK, waited + SETTLING_LOOK);
            if now != counts {
                (counts, still) = (now, Duration::ZERO);
            }
        }
        Ok(served)
    }

    /// Sets another steering table; returns the number of entries moved.
    ///
    /// # Errors
    /// If it is gone, or its own error.
    pub fn change_table(&mut self, table: IndirectionTable) -> anyhow::Result<usize> {
        self.ask(Order::ChangeTable(table))
    }

    /// An interrupt does not shorten it: what was measured until then is of use.
    fn ask<T: DeserializeOwned>(&mut self, order: Order) -> anyhow::Result<T> {
        self.child.give(order);
        self.child.report(&AtomicBool::new(false))
    }
}

/// The child's side.
pub(crate) fn serve<S: Server>(
    (plan, _): (Box<RawValue>, bool),
    orders: &mpsc::Receiver<Order>,
    output: &Output<'_>,
) -> Result<(), String> {
    let mut server = S::start(read_plan(plan)?).map_err(words)?;
    answer(output, &Answer::report(&server.served()))?;
    while !server.is_finished() {
        let report = match orders.recv_timeout(LOOK_INTERVAL) {
            Ok(Order::Counts) => Answer::report(&server.served()),
            Ok(Order::ChangeTable(table)) => {
                let moved = server.change_table(table).map_err(words)?;
                answer(output, &Answer::report(&moved))?;
                // Changes may come faster than anything else is waited for.
                server.poll().map_err(words)?;
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                server.poll().map_err(words)?;
                continue;
            }
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
        };
        answer(output, &report)?;
    }
    server.stop().map(drop).map_err(words)
}
