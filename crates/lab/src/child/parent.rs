//! The parent's end of a child process, whatever the child does.

use super::{Answer, CHILD_ARGUMENT, LOOK_INTERVAL, Order, read_lines, write_line};
use anyhow::anyhow;
use corelane_host::bed::Side;
use corelane_host::processes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;
use std::fmt::Display;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A child that was silent for so long does not run: it says each second that it does. The time is the sum of the waits
/// between looks: where the whole machine stands still, the child could not say anything.
const SILENT_WITHIN: Duration = Duration::from_secs(10);

/// How long a child may take to end after its input did. The keeper of a server waits for the server, and kills it
/// after 5 s.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A child process. Dropping it closes its input, which ends it; a child that does not end by then is killed, with all
/// that it started.
pub(super) struct Child {
    what: &'static str,
    process: Process,
    /// To the thread that writes them, so that a child that reads nothing stops nobody.
    orders: Option<mpsc::Sender<Order>>,
    answers: mpsc::Receiver<io::Result<Answer>>,
    silent: Duration,
}

impl Child {
    /// Starts `program` on `side`. With `first` it is the first of a process namespace of its own, where that is
    /// permitted, so that all that it starts ends with it.
    pub(super) fn start(
        program: &Path,
        side: &Side,
        what: &'static str,
        first: bool,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        // A terminal's interrupt is for the parent alone, which ends its children in order.
        command
            .arg(CHILD_ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let started = match first {
            true => side.start_first(command),
            false => side.run(move || command.spawn()),
        };
        let process = started.map_err(|error| anyhow!("{}: {error}", program.display()))?;
        Ok(Self::of(process, what))
    }

    fn of(mut process: Process, what: &'static str) -> Self {
        let input = process.stdin.take().expect("standard input is piped");
        let output = process.stdout.take().expect("standard output is piped");
        Self {
            what,
            process,
            orders: Some(write_orders(input)),
            answers: read_lines(BufReader::new(output), Some),
            silent: Duration::ZERO,
        }
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends the child's kind and plan, and whether it is to send lines.
    pub(super) fn run(&mut self, kind: &str, plan: &impl Serialize, lines: bool) -> anyhow::Result<()> {
        let plan = to_raw_value(plan).map_err(|error| self.failed(error))?;
        let kind = kind.to_owned();
        self.give(Order::Run { kind, plan, lines });
        Ok(())
    }

    /// Sends an order. A child that is gone does not answer it.
    pub(super) fn give(&mut self, order: Order) {
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    /// Waits a moment for the next reply.
    ///
    /// # Errors
    /// When the child is gone, does not run, or failed.
    pub(super) fn look(&mut self) -> anyhow::Result<Option<Answer>> {
        let answer = match self.answers.recv_timeout(LOOK_INTERVAL) {
            Ok(answer) => answer.map_err(|error| self.gone(error))?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(self.gone(io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.silent += LOOK_INTERVAL;
                return match self.silent > SILENT_WITHIN {
                    true => Err(self.does_not_run()),
                    false => Ok(None),
                };
            }
        };
        self.silent = Duration::ZERO;
        match answer {
            Answer::Failed(reason) => Err(self.failed(reason)),
            Answer::Runs => Ok(None),
            answer => Ok(Some(answer)),
        }
    }

    /// Waits for a report, or until `interrupt` is set.
    pub(super) fn report<T: DeserializeOwned>(&mut self, interrupt: &AtomicBool) -> anyhow::Result<T> {
        loop {
            match self.look()? {
                Some(Answer::Report(report)) => return self.read(report),
                Some(_) => return Err(self.failed("unexpected answer")),
                None if interrupt.load(Ordering::Relaxed) => return Err(self.failed("interrupted")),
                None => {}
            }
        }
    }

    /// Reads a report out of an answer.
    pub(super) fn read<T: DeserializeOwned>(&self, report: Value) -> anyhow::Result<T> {
        serde_json::from_value(report).map_err(|error| self.failed(format!("its report: {error}")))
    }

    pub(super) fn failed(&self, reason: impl Display) -> anyhow::Error {
        anyhow!("{}: {reason}", self.what)
    }

    fn gone(&self, error: impl Display) -> anyhow::Error {
        anyhow!("the {} ended without a report: {error}", self.what)
    }

    fn does_not_run(&self) -> anyhow::Error {
        let (what, seconds) = (self.what, SILENT_WITHIN.as_secs());
        let why = match processes::is_stopped(self.pid()) {
            true => "it is stopped (SIGSTOP, or a debugger)",
            false => "it has no CPU, or its control group is frozen",
        };
        anyhow!("the {what} has not run for {seconds} s: {why}")
    }
}

/// Writes a child's orders on a thread of their own, which ends with the sender, or with the child's input.
fn write_orders(mut input: ChildStdin) -> mpsc::Sender<Order> {
    let (forward, orders) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for order in orders {
            if write_line(&mut input, &order).is_err() {
                return;
            }
        }
    });
    forward
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It ends by itself because its input is closed; its status is ignored.
        processes::end_child(&mut self.process, ENDS_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_tests::until;

    /// A child that never answers.
    fn silent() -> Child {
        let process = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Child::of(process.unwrap(), "generator")
    }

    #[test]
    fn a_child_that_is_stopped_for_good_is_given_up_and_named() {
        let mut child = silent();
        let stopped = Command::new("kill")
            .args(["-STOP", &child.pid().to_string()])
            .status();
        assert!(stopped.unwrap().success());
        until("it is stopped", || processes::is_stopped(child.pid()));
        child.silent = SILENT_WITHIN;
        let error = child.look().unwrap_err().to_string();
        let named = "the generator has not run for 10 s: it is stopped (SIGSTOP, or a debugger)";
        assert_eq!(error, named);
        child.process.kill().unwrap();
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_report() {
        let mut child = silent();
        let error = child.report::<u64>(&AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.to_string(), "generator: interrupted");
        child.process.kill().unwrap();
    }

    #[test]
    fn orders_do_not_wait_for_a_child_that_reads_none() {
        let mut child = silent();
        let longer_than_a_pipe = "x".repeat(1 << 20);
        child.run("tcp", &longer_than_a_pipe, false).unwrap();
        child.give(Order::Stop);
        child.process.kill().unwrap();
    }
}
