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
    /// Starts `program` on `side`. With `first` it is the first of a process namespace of its own, where that is permitted,
    /// so that all that it starts ends with it.
    pub(super) fn start(
        program: &Path,
        side: &Side,
        what: &'static str,
        first: bool,
    ) -> Result<Self, ChildError> {
        let command = move |program: &Path| {
            let mut command = Command::new(program);
            command
                .arg(CHILD_ARGUMENT)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            // A terminal's interrupt is for the parent alone, which ends its children in order.
            command.process_group(0);
            command
        };
        let started = if first {
            side.start_first(command(program))
        } else {
            let mut command = command(program);
            side.run(move || command.spawn())
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

    /// Says what to be.
    pub(super) fn be(&mut self, kind: &str, plan: &impl Serialize) -> Result<(), ChildError> {
        let plan = to_raw_value(plan).map_err(|error| self.failed(error.to_string()))?;
        let kind = kind.to_owned();
        self.tell(&Order::Be { kind, plan })
    }

    /// Gives an order.
    pub(super) fn tell(&mut self, order: &Order) -> Result<(), ChildError> {
        let what = self.what;
        let input = self.input.as_mut().ok_or(ChildError::Gone {
            what,
            error: io::ErrorKind::BrokenPipe.into(),
        })?;
        write_line(input, order).map_err(|error| ChildError::Gone { what, error })
    }

    /// Waits for the next answer.
    pub(super) fn answer(&mut self) -> Result<Answer, ChildError> {
        let what = self.what;
        let answer = self
            .answers
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
        match answer.map_err(|error| ChildError::Gone { what, error })? {
            Answer::Failed(reason) => Err(self.failed(reason)),
            answer => Ok(answer),
        }
    }

    /// As [`answer`](Self::answer), but tells the child to end as soon as `interrupt` is set.
    pub(super) fn answer_unless(&mut self, interrupt: &AtomicBool) -> Result<Answer, ChildError> {
        let what = self.what;
        let mut told = false;
        loop {
            match self.answers.recv_timeout(LOOK_INTERVAL) {
                Ok(Ok(Answer::Failed(reason))) => return Err(self.failed(reason)),
                Ok(answer) => return answer.map_err(|error| ChildError::Gone { what, error }),
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.answer(),
                Err(mpsc::RecvTimeoutError::Timeout) if interrupt.load(Ordering::Relaxed) && !told => {
                    self.tell(&Order::Stop)?;
                    told = true;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Reads a report out of an answer.
    pub(super) fn read<T: DeserializeOwned>(&self, report: Value) -> Result<T, ChildError> {
        serde_json::from_value(report).map_err(|error| self.failed(format!("its report: {error}")))
    }

    /// An answer that nobody asked for.
    pub(super) fn unexpected(&self) -> ChildError {
        self.failed("answered out of turn".to_owned())
    }

    fn failed(&self, reason: String) -> ChildError {
        ChildError::Failed {
            what: self.what,
            reason,
        }
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
        // It ends on its own now that its input has ended; nobody is interested in how.
        let _ = self.process.wait();
    }
}
