//! A generator as a child process.

use super::process::Child;
use super::{Answer, ChildError, Order, answer, read_plan, words};
use corelane_host::bed::Side;
use corelane_load::{Generator, Moment};
use serde_json::value::RawValue;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

/// Poll interval of a generator: idle time after its last datagram counts as part of the trial, and 2 ms are 1 % of the shortest trials in tests.
const SENDING_LOOK: Duration = Duration::from_millis(2);

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
    pub fn start(program: &Path, side: &Side) -> Result<Self, ChildError> {
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

    /// Sends as planned and waits for the report; ends it early when `interrupt` is set. `reached` is called at each
    /// [`Moment`] of the run, in their order.
    ///
    /// # Errors
    /// If it is gone, or its own error.
    pub fn run(
        mut self,
        plan: &G::Plan,
        interrupt: &AtomicBool,
        mut reached: impl FnMut(Moment),
    ) -> Result<G::Loaded, ChildError> {
        self.child.be(G::KIND, plan)?;
        loop {
            match self.child.answer(interrupt)? {
                Answer::Reached(moment) => reached(moment),
                Answer::Report(loaded) => return self.child.read(loaded),
                Answer::Failed(reason) => return Err(self.child.failed(reason)),
            }
        }
    }
}

/// The child's side.
pub(super) fn attend<G: Generator>(
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut load = G::start(read_plan(plan)?).map_err(words)?;
    let mut reported = None;
    loop {
        let done = load.wait(SENDING_LOOK);
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
