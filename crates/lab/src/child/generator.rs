//! A generator as a child process.

use super::process::Child;
use super::{Answer, ChildError, Order, as_value, read_plan, write_line};
use corelane_host::bed::Side;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

/// How often a generator is looked at: idle time after its last datagram would be booked as the trial's, and 2 ms are 1 %
/// of the shortest trials that tests run.
const SENDING_LOOK: Duration = Duration::from_millis(2);

/// A point of a generator's run at which counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Every connection that can be is open; measuring begins.
    Opened,
    /// The last datagram or request is sent; it may still wait for answers. Of bytes, the last has arrived.
    Sent,
}

/// A kind of generator that can be a child.
pub trait Loading: Sized {
    /// What it is started with.
    type Plan: Serialize + DeserializeOwned;
    /// Its report.
    type Loaded: Serialize + DeserializeOwned;
    /// Its name between parent and child.
    const KIND: &'static str;

    /// Starts generating.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn start(plan: Self::Plan) -> Result<Self, String>;

    /// Waits until all is done, at most this long; tells whether it is.
    fn wait(&mut self, longest: Duration) -> bool;

    /// The last point that it has come to.
    fn reached(&self) -> Option<Moment>;

    /// Asks it to end early.
    fn stop(&self);

    /// Its report.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn finish(self) -> Result<Self::Loaded, String>;
}

/// A generator in a process of its own.
pub struct LoadProcess<L: Loading> {
    child: Child,
    kind: std::marker::PhantomData<L>,
}

impl<L: Loading> LoadProcess<L> {
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
    /// When it is gone, and what it said when it could not send.
    pub fn run(
        mut self,
        plan: &L::Plan,
        interrupt: &AtomicBool,
        mut reached: impl FnMut(Moment),
    ) -> Result<L::Loaded, ChildError> {
        self.child.be(L::KIND, plan)?;
        loop {
            match self.child.answer_unless(interrupt)? {
                Answer::Reached(moment) => reached(moment),
                Answer::Loaded(loaded) => return self.child.read(loaded),
                _ => return Err(self.child.unexpected()),
            }
        }
    }
}

/// The child's side.
pub(super) fn attend<L: Loading>(
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut load = L::start(read_plan(plan)?)?;
    let mut tell = |answer: &Answer| write_line(output, answer).map_err(|error| error.to_string());
    let mut told = None;
    loop {
        let done = load.wait(SENDING_LOOK);
        let reached = load.reached();
        if reached != told
            && let Some(moment) = reached
        {
            tell(&Answer::Reached(moment))?;
            told = reached;
        }
        if done {
            break;
        }
        match orders.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            Ok(_) => load.stop(),
            Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
        }
    }
    let loaded = as_value(&load.finish()?)?;
    if told != Some(Moment::Sent) {
        tell(&Answer::Reached(Moment::Sent))?;
    }
    tell(&Answer::Loaded(loaded))
}
