//! The thread that writes the log: what workers have handed over in, the file out.

use super::lines::{Handed, Lines};
use rtrb::Consumer;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often the workers' lines are fetched: who follows the file waits no longer, and a worker's room suffices for it.
const PERIOD: Duration = Duration::from_millis(20);

/// The name that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// There is no log.
#[derive(Debug, Error)]
#[error("cannot write the access log {}: {error}", path.display())]
pub struct AccessLogError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

/// What became of the lines of an access log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLogged {
    /// The file; `-` is standard output.
    pub file: PathBuf,
    /// Lines that were handed over to be written.
    pub lines: u64,
    /// Lines for which a worker had no room, because the file did not take those before in time.
    pub dropped: u64,
    /// Of those handed over, lines that the file did not take, at least in part.
    pub unwritten: u64,
    /// How often the file was opened again.
    pub reopened: u64,
    /// What the system said when the file could last not be written or opened again.
    pub last_error: Option<String>,
}

/// A log that is being written. Dropping it writes what is there and ends.
pub(in crate::http) struct AccessLog {
    handed: Vec<Arc<Handed>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    reopen: AtomicBool,
    /// What happened to the file; lines are counted where they are handed over.
    logged: Mutex<AccessLogged>,
}

impl Shared {
    fn logged(&self) -> MutexGuard<'_, AccessLogged> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessLog {
    /// Opens the file, to append to it, for so many workers; and the lines of each.
    pub(in crate::http) fn open(path: &Path, workers: usize) -> Result<(Self, Vec<Lines>), AccessLogError> {
        let failed = |error| AccessLogError {
            path: path.to_owned(),
            error,
        };
        let file = open(path).map_err(failed)?;
        let handed: Vec<Arc<Handed>> = (0..workers).map(|_| Arc::default()).collect();
        let shared = Arc::<Shared>::default();
        path.clone_into(&mut shared.logged().file);
        let (lines, waiting) = handed.iter().cloned().map(Lines::new).unzip();
        let mut writer = Writer {
            path: path.to_owned(),
            file,
            waiting,
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("access log".to_owned())
            .spawn(move || writer.run())
            .map_err(failed)?;
        let log = Self {
            handed,
            shared,
            thread: Some(thread),
        };
        Ok((log, lines))
    }

    /// Has the file opened again: what it was called may be another's now.
    pub(in crate::http) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Writes what the workers have handed over, and ends. They have ended before.
    pub(in crate::http) fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// What became of the lines so far.
    pub(in crate::http) fn logged(&self) -> AccessLogged {
        AccessLogged {
            lines: self.handed.iter().map(|handed| handed.lines.get()).sum(),
            dropped: self.handed.iter().map(|handed| handed.dropped.get()).sum(),
            ..self.shared.logged().clone()
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Writer {
    path: PathBuf,
    file: Box<dyn Write + Send>,
    /// What each worker has handed over.
    waiting: Vec<Consumer<u8>>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self) {
        loop {
            // Read first: what was handed over before the end is written below.
            let stop = self.shared.stop.load(Ordering::Relaxed);
            if self.shared.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            self.write();
            if stop {
                return;
            }
            thread::park_timeout(PERIOD);
        }
    }

    fn write(&mut self) {
        for waiting in &mut self.waiting {
            let Ok(chunk) = waiting.read_chunk(waiting.slots()) else {
                continue;
            };
            let (first, second) = chunk.as_slices();
            for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
                if let Err(error) = self.file.write_all(part).and_then(|()| self.file.flush()) {
                    let mut logged = self.shared.logged();
                    logged.unwritten += part.iter().filter(|byte| **byte == b'\n').count() as u64;
                    logged.last_error = Some(error.to_string());
                }
            }
            chunk.commit_all();
        }
    }

    /// Goes on in the old file where the new one cannot be had.
    fn reopen(&mut self) {
        let opened = open(&self.path);
        let mut logged = self.shared.logged();
        match opened {
            Ok(file) => {
                self.file = file;
                logged.reopened += 1;
            }
            Err(error) => logged.last_error = Some(format!("not opened again: {error}")),
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path == Path::new(STANDARD_OUTPUT) {
        return Ok(Box::new(io::stdout()));
    }
    let file: File = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_nothing_is_told_and_the_workers_go_on() {
        let (mut log, mut lines) = AccessLog::open(Path::new("/dev/full"), 1).unwrap();
        let mut lines = lines.remove(0);
        lines.opened(0, "192.0.2.1".parse().unwrap());
        lines.status(0, 200, corelane_worker::Time::default());
        lines.end(0, corelane_worker::Time::default());
        drop(lines);
        log.stop();
        let logged = log.logged();
        assert_eq!((logged.lines, logged.dropped, logged.unwritten), (1, 0, 1));
        assert!(logged.last_error.unwrap().contains("No space left"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = AccessLog::open(Path::new("/nowhere/access.log"), 1)
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nowhere/access.log"), "{error}");
    }
}
