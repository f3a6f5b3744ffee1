//! Ending what another program started: a server under test, its workers, and those that left it.
//!
//! What enters: nothing; it is about the calling process's own descendants. What leaves: all of them ended and waited for.

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

/// How often it is looked whether the descendants have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long the kernel may take to end what was killed: it is done at once unless a process is in an uninterruptible wait.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Makes this process the parent of every descendant whose own parent ends, so that none can leave it
/// (`PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
///
/// [`HostError::Process`] where the kernel refuses, which it has no reason for.
pub fn adopt_orphans() -> Result<(), HostError> {
    set_child_subreaper(true).map_err(HostError::own_process("adoption of orphans"))
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its process id.
    pub process: u32,
    /// What it exited with; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, by its name.
    pub signal: Option<&'static str>,
}

/// Takes the next child that has ended, without waiting for one; tells whether any child is left. Do not use it beside
/// [`std::process::Child::wait`], which would then find its child taken.
///
/// # Errors
///
/// What the kernel says.
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

/// Ends every descendant of this process: asks first (SIGTERM), kills what is left after `grace`, waits for all. Returns
/// whether none is left.
///
/// # Errors
///
/// [`HostError`] when `/proc` cannot be read, and so descendants not be found.
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
        // The first of a process namespace: everyone else in it is a descendant, and the numbers in `/proc` are those of
        // the namespace that mounted it. That none is left is no error.
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
