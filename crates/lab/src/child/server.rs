//! A server as a child process.

use super::process::Child;
use super::{Answer, ChildError, LOOK_INTERVAL, Order, as_value, read_plan, words, write_line};
use corelane_host::bed::Side;
use corelane_rss::IndirectionTable;
use corelane_serve::Server;
use corelane_serve::udp::FlowCounts;
use serde_json::value::RawValue;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;

/// A server in a process of its own.
pub struct ServerProcess<S: Server> {
    child: Child,
    ready: S::Served,
}

impl<S: Server> ServerProcess<S> {
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

    /// Its packets by flow so far.
    ///
    /// # Errors
    /// When it is gone, and what it said when it does not know them.
    pub fn flows(&mut self) -> Result<FlowCounts, ChildError> {
        self.child.tell(&Order::TellFlows)?;
        match self.child.answer()? {
            Answer::Flows(flows) => self.child.read(flows),
            _ => Err(self.child.unexpected()),
        }
    }
}

/// The child's side.
pub(super) fn attend<S: Server>(
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut server = S::start(read_plan(plan)?).map_err(words)?;
    let mut tell = |answer: Answer| write_line(output, &answer).map_err(|error| error.to_string());
    tell(Answer::Served(as_value(&server.served())?))?;
    while !server.is_finished() {
        match orders.recv_timeout(LOOK_INTERVAL) {
            Ok(Order::Tell) => tell(Answer::Served(as_value(&server.served())?))?,
            Ok(Order::TellFlows) => {
                let flows = server.flows().ok_or("its plan does not have it count flows")?;
                tell(Answer::Flows(as_value(&flows)?))?;
            }
            Ok(Order::ChangeTable(table)) => {
                tell(Answer::TableChanged(server.change_table(table).map_err(words)?))?;
                // Changes may come faster than anything else is waited for.
                server.poll().map_err(words)?;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => server.poll().map_err(words)?,
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    server.stop().map(drop).map_err(words)
}
