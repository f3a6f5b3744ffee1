//! The thread that writes the log: takes the lines of the workers, writes the file.

use super::lines::{Handed, Lines};
use crate::shared::lock;
use corelane_worker::WorkerSettings;
use corelane_worker::crew::{Crew, CrewError};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rtrb::Consumer;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Interval at which lines are collected: short for readers who follow the file, and short enough for the workers'
/// buffers.
const PERIOD: Duration = Duration::from_millis(20);

/// Bytes per write to anything but a regular file: a pipe that reports room has room for them (`PIPE_BUF`).
const PIECE: usize = 4_096;

/// Total time that the end waits for the reader of a pipe, before the rest of the lines is abandoned.
const LAST_WAIT: Duration = Duration::from_millis(250);

/// The name that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// The log file cannot be opened or written.
#[derive(Debug, Error)]
#[error("cannot write the access log {}: {error}", path.display())]
pub struct AccessLogError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    #[source]
    pub error: io::Error,
}

/// Statistics of an access log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLogged {
    /// The file; `-` is standard output.
    pub file: PathBuf,
    /// Lines handed over for writing.
    pub lines: u64,
    /// Lines dropped because a worker's buffer was full.
    pub dropped: u64,
    /// Of the lines handed over, those not written completely.
    pub unwritten: u64,
    /// Number of times the file was reopened.
    pub reopened: u64,
    /// The last error on writing or reopening the file.
    pub last_error: Option<String>,
}

/// A running log writer. Dropping it writes pending lines and ends.
pub(in crate::http) struct AccessLog {
    handed: Vec<Arc<Handed>>,
    shared: Arc<Shared>,
    crew: Crew<()>,
}

#[derive(Debug, Default)]
struct Shared {
    reopen: AtomicBool,
    /// State of the file; lines are counted where they are handed over.
    logged: Mutex<AccessLogged>,
}

impl AccessLog {
    /// Opens the file for appending, for this many workers; returns the log of each.
    pub(in crate::http) fn open(path: &Path, workers: usize) -> Result<(Self, Vec<Lines>), AccessLogError> {
        let failed = |error| AccessLogError {
            path: path.to_owned(),
            error,
        };
        let file = open(path).map_err(failed)?;
        let handed: Vec<Arc<Handed>> = (0..workers).map(|_| Arc::default()).collect();
        let shared = Arc::<Shared>::default();
        path.clone_into(&mut lock(&shared.logged).file);
        let (lines, waiting) = handed.iter().cloned().map(Lines::new).unzip();
        let mut writer = Writer {
            path: path.to_owned(),
            file,
            waiting,
            next: 0,
            in_line: false,
            shared: Arc::clone(&shared),
        };
        let mut crew = Crew::new();
        let stop = crew.stop_flag();
        let settings = WorkerSettings::new("access log", None);
        let body = move || {
            writer.run(&stop);
            Ok(())
        };
        crew.spawn(settings, body)
            .map_err(|error| failed(io::Error::other(error)))?;
        Ok((Self { handed, shared, crew }, lines))
    }

    /// Requests that the file be reopened, after a rename.
    pub(in crate::http) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
    }

    /// Writes all pending lines, and ends. The workers must have ended before.
    pub(in crate::http) fn stop(&mut self) -> Result<(), CrewError> {
        self.crew.stop();
        self.crew.finish().map(drop)
    }

    /// Statistics so far.
    pub(in crate::http) fn logged(&self) -> AccessLogged {
        AccessLogged {
            lines: self.handed.iter().map(|handed| handed.lines.get()).sum(),
            dropped: self.handed.iter().map(|handed| handed.dropped.get()).sum(),
            ..lock(&self.shared.logged).clone()
        }
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    /// Pending lines of each worker.
    waiting: Vec<Consumer<u8>>,
    /// The worker whose bytes are written next.
    next: usize,
    /// Whether the file ends within a line, whose rest is pending at worker `next`.
    in_line: bool,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self, stop: &AtomicBool) {
        loop {
            // Loaded first, so that lines handed over before the stop are written below.
            let stop = stop.load(Ordering::Relaxed);
            // The rest of a line belongs to the file that has its beginning.
            if !self.in_line && self.shared.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            let complete = self.write(if stop { LAST_WAIT } else { PERIOD });
            if stop {
                self.abandon();
                return;
            }
            // A pass that was not complete has waited for the reader.
            if complete {
                thread::sleep(PERIOD);
            }
        }
    }

    /// Writes the pending lines, a piece of each worker in turn, and waits `wait` in total for the reader of a pipe.
    /// Returns `false` if there was no room then.
    fn write(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let most = if is_file { usize::MAX } else { PIECE };
        // No more than what is pending now, so that the pass ends while the workers go on.
        let mut left: usize = self.waiting.iter().map(Consumer::slots).sum();
        while left > 0 {
            let waiting = &mut self.waiting[self.next];
            let Ok(chunk) = waiting.read_chunk(waiting.slots()) else {
                break;
            };
            let bytes = piece(chunk.as_slices().0, most);
            if !bytes.is_empty() && !has_room(&self.file, deadline) {
                return false;
            }
            if let Err(error) = self.file.write_all(bytes) {
                lock(&self.shared.logged).skip(bytes, error.to_string());
            }
            let taken = bytes.len();
            self.in_line = bytes.last().is_some_and(|byte| *byte != b'\n');
            chunk.commit(taken);
            left = left.saturating_sub(taken);
            if !self.in_line {
                self.next = (self.next + 1) % self.waiting.len();
            }
        }
        true
    }

    /// Counts the lines that were not read.
    fn abandon(&mut self) {
        for waiting in &mut self.waiting {
            let Ok(chunk) = waiting.read_chunk(waiting.slots()) else {
                continue;
            };
            let (first, second) = chunk.as_slices();
            for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
                lock(&self.shared.logged).skip(part, "the pipe is full and nobody reads it".to_owned());
            }
            chunk.commit_all();
        }
    }

    /// Continues with the old file if the new one cannot be opened.
    fn reopen(&mut self) {
        let opened = open(&self.path);
        let mut logged = lock(&self.shared.logged);
        match opened {
            Ok(file) => {
                self.file = file;
                logged.reopened += 1;
            }
            Err(error) => logged.last_error = Some(format!("not opened again: {error}")),
        }
    }
}

impl AccessLogged {
    /// Counts the lines that end in `bytes`.
    fn skip(&mut self, bytes: &[u8], error: String) {
        self.unwritten += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.last_error = Some(error);
    }
}

/// The first `most` bytes up to the last end of a line; all of them if none ends there.
fn piece(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(most)];
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    &bytes[..end.map_or(bytes.len(), |end| end + 1)]
}

/// Whether a write of [`PIECE`] bytes, or of any number to a regular file, finds room until the deadline. After it,
/// whether there is room now.
fn has_room(file: &File, deadline: Instant) -> bool {
    let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    let wait = deadline.saturating_duration_since(Instant::now());
    let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
    !matches!(poll(&mut polled, wait), Ok(0))
}

fn open(path: &Path) -> io::Result<File> {
    if path == Path::new(STANDARD_OUTPUT) {
        return io::stdout().as_fd().try_clone_to_owned().map(File::from);
    }
    // Opening a pipe that nobody reads would wait for its reader.
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(libc::O_NONBLOCK);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("nobody reads this pipe: start its reader first"),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;
    use corelane_proto::http::request;
    use nix::fcntl::{FcntlArg, fcntl};
    use std::io::{BufRead, BufReader};

    #[test]
    fn a_file_that_takes_nothing_is_told_and_the_workers_go_on() {
        let (mut log, mut lines) = AccessLog::open(Path::new("/dev/full"), 1).unwrap();
        let mut lines = lines.remove(0);
        let mut client = Client::new("192.0.2.1".parse().unwrap());
        client.status(200, corelane_worker::Time::default());
        lines.end(&mut client, corelane_worker::Time::default(), |_| 0);
        drop(lines);
        log.stop().unwrap();
        let logged = log.logged();
        assert_eq!((logged.lines, logged.dropped, logged.unwritten), (1, 0, 1));
        assert!(logged.last_error.unwrap().contains("No space left"));
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_block_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = AccessLog::open(&path, 1).err().unwrap();
        assert!(error.to_string().contains("nobody reads this pipe"), "{error}");
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let (mut log, mut lines) = AccessLog::open(&path, 1).unwrap();
        let mut lines = lines.remove(0);
        let mut client = Client::new("192.0.2.1".parse().unwrap());
        while log.logged().dropped == 0 {
            client.status(200, corelane_worker::Time::default());
            lines.end(&mut client, corelane_worker::Time::default(), |_| 0);
        }
        drop(lines);
        log.stop().unwrap();
        let logged = log.logged();
        assert!((1..logged.lines).contains(&logged.unwritten), "{logged:?}");
        assert!(logged.last_error.unwrap().contains("nobody reads it"));
        drop(reader);
    }

    #[test]
    fn long_lines_of_two_workers_arrive_whole_through_a_pipe_with_a_slow_reader() {
        const LINES: usize = 50;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Open for both, so that opening does not wait for a writer; with room for one piece.
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        fcntl(&reader, FcntlArg::F_SETPIPE_SZ(PIECE as i32)).unwrap();
        let (mut log, lines) = AccessLog::open(&path, 2).unwrap();
        let targets = ["a", "b"].map(|letter| letter.repeat(6_000));
        for (mut lines, target) in lines.into_iter().zip(&targets) {
            let mut client = Client::new("192.0.2.1".parse().unwrap());
            let request = format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = request::read(request.as_bytes(), &request::Limits::default());
            let head = head.unwrap().unwrap();
            for _ in 0..LINES {
                client.request(&head, corelane_worker::Time::default());
                lines.end(&mut client, corelane_worker::Time::default(), |_| 0);
            }
        }
        let mut arrived = [0, 0];
        for line in BufReader::with_capacity(1_000, reader).lines().take(2 * LINES) {
            let line = line.unwrap();
            let worker = usize::from(line.contains("bb"));
            let expected = format!("\"GET /{} HTTP/1.1\" 499 0 \"-\" \"-\" 0.000000", targets[worker]);
            assert!(
                line.starts_with("192.0.2.1 - - [") && line.ends_with(&expected),
                "{line}"
            );
            arrived[worker] += 1;
        }
        log.stop().unwrap();
        assert_eq!(arrived, [LINES, LINES]);
        assert_eq!(log.logged().unwritten, 0);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = AccessLog::open(Path::new("/nowhere/access.log"), 1)
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nowhere/access.log"), "{error}");
    }
}
