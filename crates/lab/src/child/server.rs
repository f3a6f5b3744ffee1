//! A server as a child process.

use super::process::Child;
use super::{Answer, ChildError, LOOK_INTERVAL, Order, answer, read_plan, words};
use corelane_host::bed::Side;
use corelane_rss::IndirectionTable;
use corelane_serve::Server;
use corelane_serve::udp::FlowCounts;
use serde::de::DeserializeOwned;
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
    /// If it cannot be started, or its own error if it could not serve.
    pub fn start(program: &Path, side: &Side, plan: &S::Plan) -> Result<Self, ChildError> {
        let mut child = Child::start(program, side, "server", S::STARTS_PROCESSES)?;
        child.be(S::KIND, plan)?;
        let ready = child.report()?;
        Ok(Self { child, ready })
    }

    /// Its first report: its address, engine and steering document.
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
        self.ask(&Order::Counts)
    }

    /// Sets another steering table; returns the number of entries moved.
    ///
    /// # Errors
    /// If it is gone, or its own error.
    pub fn change_table(&mut self, table: IndirectionTable) -> Result<usize, ChildError> {
        self.ask(&Order::ChangeTable(table))
    }

    /// Its packets by flow so far.
    ///
    /// # Errors
    /// If it is gone, or its own error.
    pub fn flows(&mut self) -> Result<FlowCounts, ChildError> {
        self.ask(&Order::Flows)
    }

    fn ask<T: DeserializeOwned>(&mut self, order: &Order) -> Result<T, ChildError> {
        self.child.give(order)?;
        self.child.report()
    }
}

/// The child's side.
pub(super) fn attend<S: Server>(
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut server = S::start(read_plan(plan)?).map_err(words)?;
    answer(output, &Answer::report(&server.served()))?;
    while !server.is_finished() {
        let report = match orders.recv_timeout(LOOK_INTERVAL) {
            Ok(Order::Counts) => Answer::report(&server.served()),
            Ok(Order::Flows) => {
                Answer::report(&server.flows().ok_or("its plan does not have it count flows")?)
            }
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
