//! Terminates everything that another program started: a server under test, its workers, and orphans.
//!
//! Operates on the descendants of the calling process: terminates them and waits for all of them.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use crate::HostError;
use crate::counters::Family;

const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long the kernel may take to end killed processes. It is immediate unless a process is in an uninterruptible
/// sleep.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Makes this process the parent of every orphaned descendant (`PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
///
/// [`HostError::Failed`] if the kernel rejects the request; not expected.
pub fn adopt_orphans() -> Result<(), HostError> {
    set_child_subreaper(true).map_err(HostError::process(std::process::id(), "adoption of orphans"))
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its process id.
    pub process: u32,
    /// The exit status; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, by its name.
    pub signal: Option<&'static str>,
}

/// Reaps the next child that has ended, without waiting. Returns whether any child is left. Do not combine it with
/// [`std::process::Child::wait`], which would then find its child already reaped.
///
/// # Errors
///
/// The kernel's error.
pub fn next_ended() -> io::Result<(Option<Ended>, bool)> {
    let ended = |process: Pid, exit_code, signal: Option<Signal>| {
        let ended = Ended {
            process: process.as_raw().unsigned_abs(),
            exit_code,
            signal: signal.map(Signal::as_str),
        };
        Ok((Some(ended), true))
    };
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return Ok((None, true)),
            Ok(WaitStatus::Exited(process, code)) => return ended(process, Some(code), None),
            Ok(WaitStatus::Signaled(process, signal, _)) => return ended(process, None, Some(signal)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return Ok((None, false)),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Ends every descendant of this process: sends SIGTERM, sends SIGKILL after `grace`, waits for all. Returns whether
/// none is left.
///
/// # Errors
///
/// [`HostError`] if `/proc` cannot be read.
pub fn end_descendants(grace: Duration) -> Result<bool, HostError> {
    signal_descendants(Signal::SIGTERM)?;
    if all_ended(grace) {
        return Ok(true);
    }
    signal_descendants(Signal::SIGKILL)?;
    Ok(all_ended(KILLED_WITHIN))
}

fn signal_descendants(signal: Signal) -> Result<(), HostError> {
    const EVERYONE_ELSE: Pid = Pid::from_raw(-1);
    if getpid().as_raw() == 1 {
        // The first process of a PID namespace: every other process in it is a descendant. The numbers in `/proc` are
        // those of the namespace that mounted it. No remaining process is not an error.
        let _ = kill(EVERYONE_ELSE, signal);
        return Ok(());
    }
    for process in Family::below(std::process::id())?.members.into_keys() {
        // It may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(process.cast_signed()), signal);
    }
    Ok(())
}

fn all_ended(within: Duration) -> bool {
    let start = Instant::now();
    loop {
        match next_ended() {
            Ok((Some(_), _)) => continue,
            Ok((None, false)) => return true,
            Ok((None, true)) | Err(_) => {}
        }
        if start.elapsed() > within {
            return false;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
