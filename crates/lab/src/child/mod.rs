//! Servers and generators as child processes: a plan in, answers to questions and a report out, over the child's
//! standard input and output, one JSON document a line. The end of the child's input ends the child, so whatever
//! happens to the parent, no child stays.
//!
//! [`ServerProcess`] and [`LoadProcess`] are the parent's side of any [`Server`] and [`Generator`]. [`attend`] is the
//! child's.

mod generator;
mod process;
mod server;
mod subject;

pub use generator::LoadProcess;
pub use server::ServerProcess;
pub use subject::{Subject, SubjectError, SubjectPlan, SubjectReady};

use corelane_load::http::HttpLoad;
use corelane_load::tcp::TcpLoad;
use corelane_load::udp::UdpLoad;
use corelane_load::{Generator, Moment};
use corelane_rss::IndirectionTable;
use corelane_serve::Server;
use corelane_serve::http::HttpServer;
use corelane_serve::tcp::TcpServer;
use corelane_serve::udp::UdpServer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// The argument that makes the program a child.
pub const CHILD_ARGUMENT: &str = "attend-parent";

/// What a child is ordered to be that probes the device of a guest: [`nic::probe`](crate::nic::probe).
pub(crate) const PROBE: &str = "nic-probe";

/// How often parent and child look whether something else is to be done while they wait for each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a parent orders its child, first what to be, then questions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Be this, by this plan.
    Be {
        /// [`Server::KIND`] or [`Generator::KIND`].
        kind: String,
        /// As text: values of a plan for a million connections would leave the child with ten times the memory that it
        /// needs.
        plan: Box<RawValue>,
    },
    /// Report a server's counts so far.
    Counts,
    /// Report a server's packets by flow so far.
    Flows,
    /// A server is to steer by another table, and report how many entries moved.
    ChangeTable(IndirectionTable),
    /// End now, and report.
    Stop,
}

/// What a child answers to its parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// What was asked for; a server's first one, its counts, says that it is ready. That of a generator and of a probe
    /// is its last word.
    Report(Value),
    /// A generator came to a point of its run.
    Reached(Moment),
    /// What went wrong, its last word.
    Failed(String),
}

impl Answer {
    fn report(document: &impl Serialize) -> Self {
        match serde_json::to_value(document) {
            Ok(report) => Self::Report(report),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// The line that makes a child of `kind` carry out `plan`.
pub(crate) fn order(kind: &str, plan: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&Order::Be {
        kind: kind.to_owned(),
        plan: to_raw_value(plan)?,
    })
}

/// What a probe found, out of all that its machine printed; otherwise why there is nothing.
pub(crate) fn last_report(printed: &str) -> Result<Value, String> {
    let mut answers = printed.lines().filter_map(|line| serde_json::from_str(line).ok());
    match answers.next_back() {
        Some(Answer::Report(found)) => Ok(found),
        Some(Answer::Failed(reason)) => Err(reason),
        _ => Err("it ended without a word".to_owned()),
    }
}

/// Why a child did not do as it was ordered.
#[derive(Debug, Error)]
pub enum ChildError {
    /// The program could not be started.
    #[error("{program}: {error}")]
    Start {
        /// What was started.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The pipe broke: the child is gone.
    #[error("the {what} ended without a report: {error}")]
    Gone {
        /// Which child.
        what: &'static str,
        /// What the pipe said.
        error: io::Error,
    },
    /// The child said why it failed.
    #[error("{what}: {reason}")]
    Failed {
        /// Which child.
        what: &'static str,
        /// In its own words.
        reason: String,
    },
}

/// The child's side: takes the plan from `input`, carries it out, answers on `output`, and returns when it is done or
/// when `input` ends.
///
/// # Errors
/// When the pipe to the parent breaks. What fails otherwise is reported to the parent.
pub fn attend(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
    let (forward, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in input.lines() {
            let Ok(order) = line.and_then(|line| Ok(serde_json::from_str::<Order>(&line)?)) else {
                return;
            };
            if forward.send(order).is_err() {
                return;
            }
        }
    });
    let outcome = match orders.recv() {
        Ok(Order::Be { kind, plan }) => be(&kind, plan, &orders, &mut output),
        Ok(_) => Err("the first line is no plan".to_owned()),
        Err(_) => return Ok(()),
    };
    outcome.or_else(|reason| write_line(&mut output, &Answer::Failed(reason)))
}

fn be(
    kind: &str,
    plan: Box<RawValue>,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    match kind {
        UdpServer::KIND => server::attend::<UdpServer>(plan, orders, output),
        <UdpLoad>::KIND => generator::attend::<UdpLoad>(plan, orders, output),
        HttpServer::KIND => server::attend::<HttpServer>(plan, orders, output),
        HttpLoad::KIND => generator::attend::<HttpLoad>(plan, orders, output),
        TcpServer::KIND => server::attend::<TcpServer>(plan, orders, output),
        TcpLoad::KIND => generator::attend::<TcpLoad>(plan, orders, output),
        Subject::KIND => server::attend::<Subject>(plan, orders, output),
        PROBE => answer(output, &Answer::report(&crate::nic::probe(&read_plan(plan)?)?)),
        unknown => Err(format!(
            "nobody here is a {unknown}: parent and child are of different versions"
        )),
    }
}

/// The plan in a text, which is let go before the plan is carried out.
fn read_plan<Plan: DeserializeOwned>(text: Box<RawValue>) -> Result<Plan, String> {
    let plan = serde_json::from_str(text.get()).map_err(|error| format!("the plan: {error}"));
    drop(text);
    plan
}

/// What went wrong, as it is reported to the parent.
fn words(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Answers the parent.
fn answer(output: &mut impl Write, answer: &Answer) -> Result<(), String> {
    write_line(output, answer).map_err(words)
}

fn write_line(output: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
