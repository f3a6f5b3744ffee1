//! Servers and generators as child processes. In: a plan. Out: replies and a report. Both are JSON documents, one per
//! line, over the child's standard input and output. End of input ends the child, so no child outlives its parent.
//!
//! [`ServerProcess`] and [`LoadProcess`] are the parent's side of any server and generator. The child's is
//! [`registry::run_child`](crate::registry::run_child). Each second the child says that it runs, whatever else it does:
//! the parent gives up one that is stopped for good.

mod parent;
mod process;
mod subject;
mod watch;

pub use process::{LoadProcess, ServerProcess};
pub(crate) use process::{generate, serve};
pub(crate) use subject::quoted;
pub use subject::{Subject, SubjectError, SubjectPlan, SubjectReady};
pub use watch::Watch;

use corelane_load::Moment;
use corelane_load::timeline::Second;
use corelane_rss::IndirectionTable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// The argument that makes the program a child.
pub const CHILD_ARGUMENT: &str = "run-child";

/// The end of the kind of a child that is a server, after the server's name.
pub(crate) const SERVER: &str = "_server";

/// Poll interval of parent and child while they wait for each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often a child says that it runs.
const RUNS_INTERVAL: Duration = Duration::from_secs(1);

/// An order of the parent: first the child's kind, then queries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Run this kind of child with this plan.
    Run {
        /// Its name in the registry: that of a generator, or of a server followed by [`SERVER`].
        kind: String,
        /// As text: parsed values of a plan for a million connections would use ten times the child's memory.
        plan: Box<RawValue>,
        /// A generator is to send a line each second.
        #[serde(default)]
        lines: bool,
    },
    /// Report a server's counts so far.
    Counts,
    /// A server is to steer by another table, and report how many entries moved.
    ChangeTable(IndirectionTable),
    /// End now, and report.
    Stop,
}

/// A reply of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The requested report. A server's first report, its counts, means that it is ready. A generator or probe sends
    /// one report at its end.
    Report(Value),
    /// A generator reached a point of its run.
    Reached(Moment),
    /// What a generator did in the last second.
    Second(Box<Second>),
    /// Nothing but that the child runs.
    Runs,
    /// An error; the child's last reply.
    Failed(String),
}

impl Answer {
    pub(crate) fn report(document: &impl Serialize) -> Self {
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
    match answers.rfind(|answer| !matches!(answer, Answer::Runs)) {
        Some(Answer::Report(found)) => Ok(found),
        Some(Answer::Failed(reason)) => Err(reason),
        _ => Err("it ended without a report".to_owned()),
    }
}

/// What a child does with its plan, whether a generator is to send lines, the parent's further orders, and its replies.
pub(crate) type ChildSide =
    fn((Box<RawValue>, bool), &mpsc::Receiver<Order>, &Output<'_>) -> Result<(), String>;

/// A child's output, which several threads write to, a line at a time.
pub(crate) type Output<'a> = Mutex<&'a mut (dyn Write + Send)>;

/// The child's side, of the kind that `known` has; see [`registry::run_child`](crate::registry::run_child).
pub(crate) fn run(
    input: impl BufRead + Send + 'static,
    mut output: impl Write + Send,
    known: impl FnOnce(&str) -> Option<ChildSide>,
) -> io::Result<()> {
    let orders = read_lines(input, Result::ok);
    let output: &Output<'_> = &Mutex::new(&mut output);
    let run = |kind: &str, plan, lines| match known(kind) {
        Some(run) => run((plan, lines), &orders, output),
        None => Err(format!(
            "unknown kind of child `{kind}`: parent and child are of different versions"
        )),
    };
    let outcome = match orders.recv() {
        Ok(Order::Run { kind, plan, lines }) => thread::scope(|scope| {
            let (_over, is_over) = mpsc::channel::<()>();
            scope.spawn(move || {
                while is_over.recv_timeout(RUNS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout)
                    && send(output, &Answer::Runs).is_ok()
                {}
            });
            run(&kind, plan, lines)
        }),
        Ok(_) => Err("the first line is no plan".to_owned()),
        Err(_) => return Ok(()),
    };
    outcome.or_else(|reason| send(output, &Answer::Failed(reason)))
}

/// Reads documents, one per line, on a thread of its own, which ends with the input, or at the first that is not `kept`.
fn read_lines<T: DeserializeOwned + 'static, K: Send + 'static>(
    input: impl BufRead + Send + 'static,
    kept: fn(io::Result<T>) -> Option<K>,
) -> mpsc::Receiver<K> {
    let (forward, documents) = mpsc::channel();
    thread::spawn(move || {
        for line in input.lines() {
            let document = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            if kept(document).is_none_or(|kept| forward.send(kept).is_err()) {
                return;
            }
        }
    });
    documents
}

/// Parses the plan, and frees its text before the plan runs.
pub(crate) fn read_plan<Plan: DeserializeOwned>(text: Box<RawValue>) -> Result<Plan, String> {
    let plan = serde_json::from_str(text.get()).map_err(|error| format!("the plan: {error}"));
    drop(text);
    plan
}

/// The error message for the parent.
fn words(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Answers the parent.
pub(crate) fn answer(output: &Output<'_>, answer: &Answer) -> Result<(), String> {
    send(output, answer).map_err(words)
}

fn send(output: &Output<'_>, answer: &Answer) -> io::Result<()> {
    write_line(
        &mut **output.lock().unwrap_or_else(PoisonError::into_inner),
        answer,
    )
}

fn write_line(output: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn a_child_says_that_it_runs_whatever_it_does() {
        let ((input, mut parent), (said, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let waits: ChildSide = |_, orders, _| {
            let _ = orders.recv();
            Ok(())
        };
        let child = thread::spawn(move || run(BufReader::new(input), output, |_| Some(waits)));
        writeln!(parent, "{}", order("any", &"plan").unwrap()).unwrap();
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).unwrap();
        assert_eq!(line, "\"runs\"\n");
        drop(parent);
        child.join().unwrap().unwrap();
    }

    #[test]
    fn the_last_report_is_found_before_later_signs_of_life() {
        let printed = "noise\n{\"report\":7}\n\"runs\"\n";
        assert_eq!(last_report(printed), Ok(Value::from(7)));
    }
}
