//! Servers and generators as child processes. In: a plan. Out: replies and a report. Both are JSON documents, one per
//! line, over the child's standard input and output. End of input ends the child, so no child outlives its parent.
//!
//! [`ServerProcess`] and [`LoadProcess`] are the parent's side of any [`Server`] and [`Generator`]. [`run_child`] is the
//! child's.

mod process;
mod subject;
mod watch;

pub use process::{LoadProcess, ServerProcess};
pub(crate) use subject::quoted;
pub use subject::{Subject, SubjectError, SubjectPlan, SubjectReady};
pub use watch::Watch;

use corelane_load::http::HttpLoad;
use corelane_load::tcp::TcpLoad;
use corelane_load::timeline::Second;
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
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The argument that makes the program a child.
pub const CHILD_ARGUMENT: &str = "run-child";

/// The kind of a child that probes the device of a guest: [`nic::probe`](crate::nic::probe).
pub(crate) const PROBE: &str = "nic-probe";

/// Poll interval of parent and child while they wait for each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// An order of the parent: first the child's kind, then queries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Run this kind of child with this plan.
    Run {
        /// [`Server::KIND`] or [`Generator::KIND`].
        kind: String,
        /// As text: parsed values of a plan for a million connections would use ten times the child's memory.
        plan: Box<RawValue>,
        /// A generator is to send a line each second.
        #[serde(default)]
        lines: bool,
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

/// A reply of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The requested report. A server's first report, its counts, means that it is ready. A generator or probe sends
    /// one report at its end.
    Report(Value),
    /// A generator reached a point of its run.
    Reached(Moment),
    /// What a generator did in the last second.
    Second(Box<Second>),
    /// An error; the child's last reply.
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
    serde_json::to_string(&Order::Run {
        kind: kind.to_owned(),
        plan: to_raw_value(plan)?,
        lines: false,
    })
}

/// Extracts a probe's result from the output of its machine.
pub(crate) fn last_report(printed: &str) -> Result<Value, String> {
    let mut answers = printed.lines().filter_map(|line| serde_json::from_str(line).ok());
    match answers.next_back() {
        Some(Answer::Report(found)) => Ok(found),
        Some(Answer::Failed(reason)) => Err(reason),
        _ => Err("it ended without a report".to_owned()),
    }
}

/// The child's side: reads the plan from `input`, runs it, replies on `output`, and returns when it is done or `input`
/// ends.
///
/// # Errors
/// When the pipe to the parent breaks. What fails otherwise is reported to the parent.
pub fn run_child(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
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
        Ok(Order::Run { kind, plan, lines }) => run(&kind, (plan, lines), &orders, &mut output),
        Ok(_) => Err("the first line is no plan".to_owned()),
        Err(_) => return Ok(()),
    };
    outcome.or_else(|reason| write_line(&mut output, &Answer::Failed(reason)))
}

fn run(
    kind: &str,
    (plan, lines): (Box<RawValue>, bool),
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    match kind {
        UdpServer::KIND => process::serve::<UdpServer>(plan, orders, output),
        <UdpLoad>::KIND => process::generate::<UdpLoad>((plan, lines), orders, output),
        HttpServer::KIND => process::serve::<HttpServer>(plan, orders, output),
        HttpLoad::KIND => process::generate::<HttpLoad>((plan, lines), orders, output),
        TcpServer::KIND => process::serve::<TcpServer>(plan, orders, output),
        TcpLoad::KIND => process::generate::<TcpLoad>((plan, lines), orders, output),
        Subject::KIND => process::serve::<Subject>(plan, orders, output),
        PROBE => {
            let probed = crate::nic::probe(&read_plan(plan)?).map_err(|error| error.to_string())?;
            answer(output, &Answer::report(&probed))
        }
        unknown => Err(format!(
            "unknown kind of child `{unknown}`: parent and child are of different versions"
        )),
    }
}

/// Parses the plan, and frees its text before the plan runs.
fn read_plan<Plan: DeserializeOwned>(text: Box<RawValue>) -> Result<Plan, String> {
    let plan = serde_json::from_str(text.get()).map_err(|error| format!("the plan: {error}"));
    drop(text);
    plan
}

/// The error message for the parent.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Cursor;

    #[test]
    fn a_plan_that_needs_more_memory_than_there_is_is_refused_before_anything_is_allocated() {
        let lease = json!({ "address": "127.0.0.1", "connections": u64::MAX / 2, "ports": "kernel" });
        let plan = json!({ "connect_timeout_s": 5.0, "direction": "write", "drain_s": null, "duration_s": 1.0,
            "engine": null, "memory": "first-touch", "stall_s": 1.0, "target": "127.0.0.1:9",
            "workers": [{ "bucket": null, "cpu": 0, "leases": [lease], "own_descriptors": false }],
            "write_bytes": 1, "write_bytes_per_second": null });
        let order = order(TcpLoad::KIND, &plan).unwrap();
        let mut output = Vec::new();
        run_child(Cursor::new(order + "\n"), &mut output).unwrap();
        let answer = String::from_utf8(output).unwrap();
        assert!(
            answer.contains("failed") && answer.contains("of memory"),
            "{answer}"
        );
    }
}
