//! Runs any server under test in a child of the lab: starts it, waits until it accepts connections, and ends it with
//! all its processes.
//!
//! In: a [`SubjectPlan`]. Out: a server at its address, which no longer runs when the keeper ends, however that
//! happens: where it is permitted, the keeper is the first of a process namespace; elsewhere it adopts what the server
//! leaves behind.

use crate::placing::sorted;
use corelane_host::processes::{self, Ended};
use corelane_host::{cpus, pin, sockets};
use corelane_serve::Server;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::io::{self, PipeReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between connection attempts.
const ACCEPT_LOOK: Duration = Duration::from_millis(2);

/// Looks, a second of waits and more, between two readings of where a subject listens.
const LOOKS_BETWEEN: u32 = 500;

/// A subject that uses less CPU time than this between two of them waits for nothing but connections.
const RESTS_BELOW_NS: u64 = 20_000_000;

/// Timeout of one attempt.
const ACCEPT_WITHIN: Duration = Duration::from_millis(200);

/// Timeout until the server of an experiment accepts connections, in milliseconds.
const READY_MS: u64 = 30_000;

/// Timeout of the server's shutdown, also on a machine whose CPUs are busy.
const GRACE: Duration = Duration::from_secs(5);

/// Lines of it that an error quotes.
const MOST_LINES: usize = 5;

/// Amount of the server's last output to keep: one screen.
const MOST_WORDS_BYTES: usize = 4096;

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectPlan {
    /// The command as a shell takes it. It finds where to listen and how many CPUs it has in `CORELANE_ADDRESS` (an IPv6
    /// address in brackets), `CORELANE_PORT`, `CORELANE_CPUS` and `CORELANE_CPU_LIST`.
    pub command: String,
    /// Where it is expected to listen.
    pub address: SocketAddr,
    /// The CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// Timeout until it accepts connections, in milliseconds.
    pub ready_within_ms: u64,
}

impl SubjectPlan {
    /// The server of an experiment's step.
    pub(crate) fn new(command: &str, address: SocketAddr, cpus: Vec<u32>) -> Self {
        Self {
            command: command.to_owned(),
            address,
            cpus: sorted(cpus),
            ready_within_ms: READY_MS,
        }
    }
}

/// The keeper's report: the server accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectReady {
    /// Where.
    pub address: SocketAddr,
    /// Time until it accepted, in milliseconds.
    pub after_ms: u64,
    /// The last lines of its output.
    #[serde(default)]
    pub said: String,
}

/// The keeper's side: the server that it started. Counters of the server are those of the family of
/// [`ServerProcess::pid`](super::ServerProcess::pid) without the keeper itself.
pub struct Subject {
    process: Child,
    words: LastWords,
    ready: SubjectReady,
    /// How the process that was started ended. What it started may go on: a server that leaves for the background.
    ended: Option<Ended>,
}

/// An error of the server under test.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SubjectError(String);

impl SubjectError {
    fn of(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// Where a subject that does not listen at its address does listen, and the CPU time it has used.
struct Settled {
    listens: BTreeSet<SocketAddr>,
    cpu_ns: u64,
}

impl Settled {
    fn read() -> Self {
        // What cannot be read is not known to listen.
        let (members, cpu_ns) = processes::descendants().unwrap_or_default();
        let listens = sockets::listeners_of(&members).unwrap_or_default();
        Self {
            listens: listens.into_iter().collect(),
            cpu_ns,
        }
    }

    /// Where it listens, if it does nothing more: it did before, and has hardly used its CPUs since. One that still loads
    /// may have opened another port first.
    fn elsewhere(&self, before: Option<&Self>) -> Option<String> {
        let before = before.filter(|before| before.listens == self.listens)?;
        let rests = self.cpu_ns.saturating_sub(before.cpu_ns) < RESTS_BELOW_NS;
        let places: Vec<String> = self.listens.iter().map(ToString::to_string).collect();
        (rests && !places.is_empty()).then(|| places.join(", "))
    }
}

impl Server for Subject {
    type Plan = SubjectPlan;
    type Served = SubjectReady;
    type Error = SubjectError;
    const NAME: &'static str = "subject";
    const STARTS_PROCESSES: bool = true;

    fn start(plan: SubjectPlan) -> Result<Self, SubjectError> {
        if accepts(plan.address) {
            let taken = format!("{} is taken: something listens there already", plan.address);
            return Err(SubjectError(taken));
        }
        processes::adopt_orphans().map_err(SubjectError::of)?;
        pin::current_thread_to(&plan.cpus).map_err(SubjectError::of)?;
        let started = Instant::now();
        let (process, output) = spawn(&plan).map_err(|error| SubjectError(format!("sh: {error}")))?;
        let mut subject = Self {
            process,
            words: LastWords::of(output),
            ready: SubjectReady {
                address: plan.address,
                after_ms: 0,
                said: String::new(),
            },
            ended: None,
        };
        subject.await_listener(&plan, started)?;
        subject.ready.after_ms = started.elapsed().as_millis() as u64;
        Ok(subject)
    }

    fn served(&mut self) -> SubjectReady {
        SubjectReady {
            said: self.words.said(),
            ..self.ready.clone()
        }
    }

    fn poll(&mut self) -> Result<(), SubjectError> {
        if self.reap()? {
            return Ok(());
        }
        self.words.await_end();
        let (how, words) = (self.how(), self.words.sentence());
        let reason = format!("the subject ended by itself ({how}){words}");
        Err(SubjectError(reason))
    }

    fn stop(self) -> Result<SubjectReady, SubjectError> {
        match processes::end_descendants(GRACE).map_err(SubjectError::of)? {
            true => Ok(self.ready),
            false => Err(SubjectError("the subject does not end, though killed".to_owned())),
        }
    }
}

impl Subject {
    /// Waits until it accepts connections at its address.
    fn await_listener(&mut self, plan: &SubjectPlan, started: Instant) -> Result<(), SubjectError> {
        let (address, mut before) = (plan.address, None);
        for look in 1_u32.. {
            if accepts(address) {
                break;
            }
            let alive = self.reap()?;
            let waited = started.elapsed();
            let is_late = waited > Duration::from_millis(plan.ready_within_ms);
            let now = (alive && look.is_multiple_of(LOOKS_BETWEEN)).then(Settled::read);
            let elsewhere = now.as_ref().and_then(|now| now.elsewhere(before.as_ref()));
            if !alive || is_late || elsewhere.is_some() {
                // It is to be gone either way; what is wrong with it is reported below.
                if let Ok(true) = processes::end_descendants(GRACE) {
                    self.words.await_end();
                }
                let (how, words, seconds) = (self.how(), self.words.sentence(), waited.as_secs_f64());
                let there = "have it listen there ($CORELANE_ADDRESS:$CORELANE_PORT)";
                return Err(SubjectError(match (alive, elsewhere) {
                    (true, Some(places)) => {
                        format!("the subject listens on {places}, not on {address}: {there}{words}")
                    }
                    (true, None) => format!(
                        "the subject accepts nothing on {address} within {seconds:.0} s: {there}{words}"
                    ),
                    (false, _) => {
                        format!("the subject ended before it listened on {address} ({how}){words}")
                    }
                }));
            }
            before = now.or(before);
            thread::sleep(ACCEPT_LOOK);
        }
        Ok(())
    }

    /// Reaps ended processes; returns whether any process of the server is left.
    fn reap(&mut self) -> Result<bool, SubjectError> {
        loop {
            match processes::next_ended().map_err(SubjectError::of)? {
                (Some(ended), _) if ended.process == self.process.id() => self.ended = Some(ended),
                (Some(_), _) => {}
                (None, alive) => return Ok(alive),
            }
        }
    }

    fn how(&self) -> String {
        let ended = self.ended.as_ref().map(|ended| (ended.exit_code, ended.signal));
        match ended {
            Some((Some(code), _)) => format!("exit code {code}"),
            Some((None, Some(signal))) => format!("signal {signal}"),
            _ => "all its processes".to_owned(),
        }
    }
}

/// Starts the server; both its streams come by one pipe.
fn spawn(plan: &SubjectPlan) -> io::Result<(Child, PipeReader)> {
    let (output, input) = io::pipe()?;
    let place = plan.address.to_string();
    let (address, port) = place.rsplit_once(':').expect("a socket address has a port");
    let process = Command::new("sh")
        .args(["-c", &plan.command])
        .env("CORELANE_ADDRESS", address)
        .env("CORELANE_PORT", port)
        .env("CORELANE_CPUS", plan.cpus.len().to_string())
        .env("CORELANE_CPU_LIST", cpus::list::format(&plan.cpus))
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0)
        .spawn()?;
    Ok((process, output))
}

/// Whether the server accepts connections. A listener is looked up rather than connected to: while nothing listens on a
/// port of the ephemeral range, a connection may get this port as its own, which connects it to itself and keeps the
/// server from binding it.
fn accepts(address: SocketAddr) -> bool {
    sockets::listens(address).unwrap_or_else(|_| {
        let stream = TcpStream::connect_timeout(&address, ACCEPT_WITHIN);
        stream.is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != address))
    })
}

/// The end of what the server wrote.
struct LastWords {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl LastWords {
    /// Reads on a thread of its own, for as long as anything holds the other end.
    fn of(mut output: PipeReader) -> Self {
        let words = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&words);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 1024];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                let Ok(mut kept) = words.lock() else { return };
                kept.extend(&chunk[..length]);
                let beyond = kept.len().saturating_sub(MOST_WORDS_BYTES);
                kept.drain(..beyond);
            }
        });
        let reader = Some(reader);
        Self { kept, reader }
    }

    /// Waits for the very last words: nothing may be left that could write more.
    fn await_end(&mut self) {
        // A reader that panicked has nothing more to report.
        let _ = self.reader.take().map(JoinHandle::join);
    }

    fn said(&self) -> String {
        let kept = self.kept.lock().map(|mut kept| kept.make_contiguous().to_vec());
        String::from_utf8_lossy(&kept.unwrap_or_default())
            .trim()
            .to_owned()
    }

    fn sentence(&self) -> String {
        quoted(&self.said())
    }
}

/// The last lines that a server wrote as the end of a sentence; empty if it wrote nothing.
pub(crate) fn quoted(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    match lines[lines.len().saturating_sub(MOST_LINES)..].join("\n") {
        last if last.is_empty() => last,
        last => format!("; it said: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_quoted() {
        assert_eq!(quoted(""), "");
        assert_eq!(quoted("no licence"), "; it said: no licence");
        let many: Vec<String> = (0..9).map(|line| line.to_string()).collect();
        assert_eq!(quoted(&many.join("\n")), "; it said: 4\n5\n6\n7\n8");
    }
}
