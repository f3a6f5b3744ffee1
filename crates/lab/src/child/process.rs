//! The parent's end of the pipe to one child.

use super::{Answer, CHILD_ARGUMENT, ChildError, LOOK_INTERVAL, Order, write_line};
use corelane_host::bed::Side;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// A child process. Dropping it closes its input, which ends it, and waits for it.
pub(super) struct Child {
    what: &'static str,
    process: Process,
    input: Option<ChildStdin>,
    answers: mpsc::Receiver<io::Result<Answer>>,
}

impl Child {
    /// Starts `program` on `side`. With `first` it is the first of a process namespace of its own, where that is
    /// permitted, so that all that it starts ends with it.
    pub(super) fn start(
        program: &Path,
        side: &Side,
        what: &'static str,
        first: bool,
    ) -> Result<Self, ChildError> {
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
        let mut process = started.map_err(|error| ChildError::Start {
            program: program.to_owned(),
            error,
        })?;
        let (input, output) = (
            process.stdin.take(),
            process.stdout.take().expect("standard output is piped"),
        );
        Ok(Self {
            what,
            process,
            input,
            answers: read_answers(output),
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends the child's kind and plan.
    pub(super) fn be(&mut self, kind: &str, plan: &impl Serialize) -> Result<(), ChildError> {
        let plan = to_raw_value(plan).map_err(|error| self.failed(error.to_string()))?;
        let kind = kind.to_owned();
        self.give(&Order::Be { kind, plan })
    }

    /// Sends an order.
    pub(super) fn give(&mut self, order: &Order) -> Result<(), ChildError> {
        let written = match &mut self.input {
            Some(input) => write_line(input, order),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|error| self.gone(error))
    }

    /// Waits for the next reply; orders the child to end when `interrupt` is set.
    pub(super) fn answer(&mut self, interrupt: &AtomicBool) -> Result<Answer, ChildError> {
        let mut stopping = false;
        loop {
            match self.answers.recv_timeout(LOOK_INTERVAL) {
                Ok(Ok(Answer::Failed(reason))) => return Err(self.failed(reason)),
                Ok(answer) => return answer.map_err(|error| self.gone(error)),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.gone(io::ErrorKind::UnexpectedEof.into()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if interrupt.load(Ordering::Relaxed) && !stopping {
                self.give(&Order::Stop)?;
                stopping = true;
            }
        }
    }

    /// Waits for a report.
    pub(super) fn report<T: DeserializeOwned>(&mut self) -> Result<T, ChildError> {
        match self.answer(&AtomicBool::new(false))? {
            Answer::Report(report) => self.read(report),
            _ => Err(self.failed("answered out of turn".to_owned())),
        }
    }

    /// Reads a report out of an answer.
    pub(super) fn read<T: DeserializeOwned>(&self, report: Value) -> Result<T, ChildError> {
        serde_json::from_value(report).map_err(|error| self.failed(format!("its report: {error}")))
    }

    pub(super) fn failed(&self, reason: String) -> ChildError {
        let what = self.what;
        ChildError::Failed { what, reason }
    }

    fn gone(&self, error: io::Error) -> ChildError {
        let what = self.what;
        ChildError::Gone { what, error }
    }
}

/// Reads a child's answers on a thread of their own, which ends with the child's output.
fn read_answers(output: ChildStdout) -> mpsc::Receiver<io::Result<Answer>> {
    let (forward, answers) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let answer = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            if forward.send(answer).is_err() {
                return;
            }
        }
    });
    answers
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself because its input is closed; its status is ignored.
        let _ = self.process.wait();
    }
}
