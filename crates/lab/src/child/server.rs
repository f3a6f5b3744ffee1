//! A server as a child process.

use super::process::Child;
use super::{Answer, ChildError, LOOK_INTERVAL, Order, as_value, read_plan, write_line};
use corelane_host::bed::Side;
use corelane_rss::IndirectionTable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;

/// A kind of server that can be a child.
pub trait Serving: Sized {
    /// What it is started with.
    type Plan: Serialize + DeserializeOwned;
    /// What it tells: first that it is ready, then its counts.
    type Served: Serialize + DeserializeOwned;
    /// Its name between parent and child.
    const KIND: &'static str;
    /// Whether it starts processes, which must end with it.
    const STARTS_PROCESSES: bool = false;

    /// Starts serving; returns when it is ready to receive.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn start(plan: Self::Plan) -> Result<Self, String>;

    /// Its counts so far.
    fn served(&mut self) -> Self::Served;

    /// Steers by another table from now on; tells how many entries moved.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn change_table(&mut self, _table: IndirectionTable) -> Result<usize, String> {
        Err(format!("a {} has no table that may change", Self::KIND))
    }

    /// Its packets by flow so far, as a document of its own.
    ///
    /// # Errors
    /// Why it does not know them, in words.
    fn flows(&mut self) -> Result<Value, String> {
        Err(format!("a {} does not count flows", Self::KIND))
    }

    /// Called every so often while nobody asks anything.
    ///
    /// # Errors
    /// Why it cannot go on, in words.
    fn look(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// What went wrong while it served, in words.
    fn stop(self) -> Result<(), String>;
}

/// A server in a process of its own.
pub struct ServerProcess<S: Serving> {
    child: Child,
    ready: S::Served,
}

impl<S: Serving> ServerProcess<S> {
    /// Starts `program` as a server on `side`; returns when it is ready to receive.
    ///
    /// # Errors
    /// When it cannot be started, and what it said when it could not serve.
    pub fn start(program: &Path, side: &Side, plan: &S::Plan) -> Result<Self, ChildError> {
        let mut child = Child::start(program, side, "server", S::STARTS_PROCESSES)?;
        child.be(S::KIND, plan)?;
        match child.answer()? {
            Answer::Served(ready) => Ok(Self {
                ready: child.read(ready)?,
                child,
            }),
            _ => Err(child.unexpected()),
        }
    }

    /// What it said when it was ready: its address, engine and steering document.
    #[must_use]
    pub fn ready(&self) -> &S::Served {
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
    pub fn served(&mut self) -> Result<S::Served, ChildError> {
        self.child.tell(&Order::Tell)?;
        match self.child.answer()? {
            Answer::Served(served) => self.child.read(served),
            _ => Err(self.child.unexpected()),
        }
    }

    /// Has it steer by another table from now on; tells how many entries moved.
    ///
    /// # Errors
    /// When it is gone, and what it said when it cannot.
    pub fn change_table(&mut self, table: IndirectionTable) -> Result<usize, ChildError> {
        self.child.tell(&Order::ChangeTable(table))?;
        match self.child.answer()? {
            Answer::TableChanged(moved) => Ok(moved),
            _ => Err(self.child.unexpected()),
        }
    }

    /// Its packets by flow so far, as its kind tells them.
    ///
    /// # Errors
    /// When it is gone, and what it said when it does not know them.
    pub fn flows<T: DeserializeOwned>(&mut self) -> Result<T, ChildError> {
        self.child.tell(&Order::TellFlows)?;
        match self.child.answer()? {
            Answer::Flows(flows) => self.child.read(flows),
            _ => Err(self.child.unexpected()),
        }
    }
}

/// The child's side.
pub(super) fn attend<S: Serving>(
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut server = S::start(read_plan(plan)?)?;
    let mut tell = |answer: Answer| write_line(output, &answer).map_err(|error| error.to_string());
    tell(Answer::Served(as_value(&server.served())?))?;
    loop {
        match orders.recv_timeout(LOOK_INTERVAL) {
            Ok(Order::Tell) => tell(Answer::Served(as_value(&server.served())?))?,
            Ok(Order::TellFlows) => tell(Answer::Flows(server.flows()?))?,
            Ok(Order::ChangeTable(table)) => {
                tell(Answer::TableChanged(server.change_table(table)?))?;
                // Changes may come faster than anything else is waited for.
                server.look()?;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => server.look()?,
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    server.stop()
}
