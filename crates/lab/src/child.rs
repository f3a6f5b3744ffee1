//! Servers and generators as child processes: a plan in, answers to questions and a report out, over the child's standard
//! input and output, one JSON document a line. The end of the child's input ends the child, so whatever happens to the
//! parent, no child stays.
//!
//! [`Child`] is the parent's side. [`attend`] is the child's.

use corelane_host::bed::Side;
use corelane_load::udp::{UdpLoad, UdpLoaded, UdpPlan as UdpLoadPlan};
use corelane_serve::udp::{UdpPlan as UdpServePlan, UdpServed, UdpServer};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// The argument that makes the program a child.
pub const CHILD_ARGUMENT: &str = "attend-parent";

/// How often parent and child look whether something else is to be done while they wait for each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often a generator is looked at: idle time after its last datagram would be booked as the trial's, and 2 ms are 1 %
/// of the shortest trials that tests run.
const SENDING_LOOK: Duration = Duration::from_millis(2);

/// What a parent tells its child, first a plan, then questions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    ServeUdp(Box<UdpServePlan>),
    LoadUdp(Box<UdpLoadPlan>),
    /// A server's counts so far.
    Tell,
    /// End now, and report.
    Stop,
}

/// What a child tells its parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// A server's counts; the first one says that it is ready.
    Served(Box<UdpServed>),
    /// A generator has sent its last datagram; it may still wait for answers.
    Sent,
    /// A generator's report, its last word.
    Loaded(Box<UdpLoaded>),
    /// What went wrong, its last word.
    Failed(String),
}

/// Why a child did not do as it was told.
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

/// A child process. Dropping it closes its input, which ends it, and waits for it.
struct Child {
    what: &'static str,
    process: Process,
    input: Option<ChildStdin>,
    answers: mpsc::Receiver<io::Result<Answer>>,
}

impl Child {
    fn start(program: &Path, side: &Side, what: &'static str) -> Result<Self, ChildError> {
        let mut command = Command::new(program);
        command
            .arg(CHILD_ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // A terminal's interrupt is for the parent alone, which ends its children in order.
        command.process_group(0);
        let started = side.run(move || command.spawn());
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

    fn tell(&mut self, order: &Order) -> Result<(), ChildError> {
        let what = self.what;
        let input = self.input.as_mut().ok_or(ChildError::Gone {
            what,
            error: io::ErrorKind::BrokenPipe.into(),
        })?;
        write_line(input, order).map_err(|error| ChildError::Gone { what, error })
    }

    fn answer(&mut self) -> Result<Answer, ChildError> {
        let what = self.what;
        let answer = self
            .answers
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
        match answer.map_err(|error| ChildError::Gone { what, error })? {
            Answer::Failed(reason) => Err(ChildError::Failed { what, reason }),
            answer => Ok(answer),
        }
    }

    /// As [`answer`](Self::answer), but tells the child to end as soon as `interrupt` is set.
    fn answer_unless(&mut self, interrupt: &AtomicBool) -> Result<Answer, ChildError> {
        let mut told = false;
        loop {
            match self.answers.recv_timeout(LOOK_INTERVAL) {
                Ok(Ok(Answer::Failed(reason))) => {
                    return Err(ChildError::Failed {
                        what: self.what,
                        reason,
                    });
                }
                Ok(answer) => {
                    return answer.map_err(|error| ChildError::Gone {
                        what: self.what,
                        error,
                    });
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.answer(),
                Err(mpsc::RecvTimeoutError::Timeout) if interrupt.load(Ordering::Relaxed) && !told => {
                    self.tell(&Order::Stop)?;
                    told = true;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn unexpected(&self) -> ChildError {
        ChildError::Failed {
            what: self.what,
            reason: "answered out of turn".to_owned(),
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

/// A server in a process of its own.
pub struct ServerProcess {
    child: Child,
    ready: UdpServed,
}

impl ServerProcess {
    /// Starts `program` as a server on `side`; returns when it is ready to receive.
    ///
    /// # Errors
    /// When it cannot be started, and what it said when it could not serve.
    pub fn start(program: &Path, side: &Side, plan: UdpServePlan) -> Result<Self, ChildError> {
        let mut child = Child::start(program, side, "server")?;
        child.tell(&Order::ServeUdp(Box::new(plan)))?;
        match child.answer()? {
            Answer::Served(ready) => Ok(Self { child, ready: *ready }),
            _ => Err(child.unexpected()),
        }
    }

    /// What it said when it was ready: its address, engine and steering document.
    #[must_use]
    pub fn ready(&self) -> &UdpServed {
        &self.ready
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.process.id()
    }

    /// Its counts so far.
    ///
    /// # Errors
    /// When it is gone.
    pub fn served(&mut self) -> Result<UdpServed, ChildError> {
        self.child.tell(&Order::Tell)?;
        match self.child.answer()? {
            Answer::Served(served) => Ok(*served),
            _ => Err(self.child.unexpected()),
        }
    }
}

/// A generator in a process of its own.
pub struct LoadProcess {
    child: Child,
}

impl LoadProcess {
    /// Starts `program` as a generator on `side`, which waits for its plan.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, side: &Side) -> Result<Self, ChildError> {
        Ok(Self {
            child: Child::start(program, side, "generator")?,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.process.id()
    }

    /// Sends as planned and waits for the report; ends it early when `interrupt` is set. `sent` is called when the last
    /// datagram has left.
    ///
    /// # Errors
    /// When it is gone, and what it said when it could not send.
    pub fn run(
        mut self,
        plan: UdpLoadPlan,
        interrupt: &AtomicBool,
        mut sent: impl FnMut(),
    ) -> Result<UdpLoaded, ChildError> {
        self.child.tell(&Order::LoadUdp(Box::new(plan)))?;
        loop {
            match self.child.answer_unless(interrupt)? {
                Answer::Sent => sent(),
                Answer::Loaded(loaded) => return Ok(*loaded),
                _ => return Err(self.child.unexpected()),
            }
        }
    }
}

/// The child's side: takes the plan from `input`, carries it out, answers on `output`, and returns when it is done or when
/// `input` ends.
///
/// # Errors
/// When the pipe to the parent breaks. What fails otherwise is told to the parent.
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
        Ok(Order::ServeUdp(plan)) => attend_server(*plan, &orders, &mut output),
        Ok(Order::LoadUdp(plan)) => attend_load(*plan, &orders, &mut output),
        Ok(Order::Tell | Order::Stop) => Err("the first line is no plan".to_owned()),
        Err(_) => return Ok(()),
    };
    outcome.or_else(|reason| write_line(&mut output, &Answer::Failed(reason)))
}

fn attend_server(
    plan: UdpServePlan,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut server = UdpServer::start(plan).map_err(|error| error.to_string())?;
    let mut tell = |server: &mut UdpServer| {
        write_line(output, &Answer::Served(Box::new(server.served()))).map_err(|error| error.to_string())
    };
    tell(&mut server)?;
    loop {
        match orders.recv_timeout(LOOK_INTERVAL) {
            Ok(Order::Tell) => tell(&mut server)?,
            Err(mpsc::RecvTimeoutError::Timeout) => server.collect_samples(),
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    server.stop().map(drop).map_err(|error| error.to_string())
}

fn attend_load(
    plan: UdpLoadPlan,
    orders: &mpsc::Receiver<Order>,
    output: &mut impl Write,
) -> Result<(), String> {
    let mut load = UdpLoad::start(plan).map_err(|error| error.to_string())?;
    let mut tell = |answer: &Answer| write_line(output, answer).map_err(|error| error.to_string());
    let mut told = false;
    while !load.wait(SENDING_LOOK) {
        if load.sending_ended() && !told {
            tell(&Answer::Sent)?;
            told = true;
        }
        match orders.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            Ok(_) => load.stop(),
            Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
        }
    }
    let loaded = load.finish().map_err(|error| error.to_string())?;
    if !told {
        tell(&Answer::Sent)?;
    }
    tell(&Answer::Loaded(Box::new(loaded)))
}

fn write_line(output: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
