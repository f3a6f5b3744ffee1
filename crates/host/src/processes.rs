//! Terminates everything that another program started: a server under test, its workers, and orphans.
//!
//! Operates on the descendants of the calling process: terminates them and waits for all of them.

use std::io;
use std::process::Child;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use crate::HostError;
use crate::counters::{Family, after_name, ticks_a_second, times, with_descendants};
use crate::tree::Tree;

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

/// Ends every descendant of this process: sends SIGTERM, also to stopped ones, sends SIGKILL after `grace`, waits for all.
/// Returns whether none is left.
///
/// # Errors
///
/// [`HostError`] if `/proc` cannot be read.
pub fn end_descendants(grace: Duration) -> Result<bool, HostError> {
    signal_descendants(Signal::SIGTERM)?;
    signal_descendants(Signal::SIGCONT)?;
    if all_ended(grace) {
        return Ok(true);
    }
    signal_descendants(Signal::SIGKILL)?;
    Ok(all_ended(KILLED_WITHIN))
}

/// The living descendants of this process, and their CPU time in nanoseconds, in ticks of 10 ms. Their numbers are those in
/// `/proc`, which are of the process namespace that mounted it (`pid_namespaces(7)`): this process may have another number.
///
/// # Errors
///
/// [`HostError`] if `/proc` cannot be read.
pub fn descendants() -> Result<(Vec<u32>, u64), HostError> {
    let tree = Tree::machine();
    let own = tree.link("/proc/self");
    let own = own.and_then(|own| own.to_str()?.parse().ok());
    let mut all = with_descendants(own.unwrap_or_else(std::process::id))?;
    all.remove(0);
    let time = |process: &u32| {
        let stat = tree.text(&format!("/proc/{process}/stat")).ok()?;
        let [user, system, ..] = times(&stat, ticks_a_second())?;
        Some(user + system)
    };
    let cpu_ns = all.iter().filter_map(time).sum();
    Ok((all, cpu_ns))
}

/// Whether a process is stopped, by a signal or a debugger (`T` or `t` in `proc_pid_stat(5)`).
#[must_use]
pub fn is_stopped(process: u32) -> bool {
    let stat = Tree::machine().text(&format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| matches!(after_name(&stat).next(), Some("T" | "t")))
}

/// Waits for a child that is about to end. One that does not within a second, because it is stopped or waits for a
/// process below it, is continued, and those below are terminated; after `grace` it is killed with all of them. Returns
/// whether it has ended.
pub fn end_child(child: &mut Child, grace: Duration) -> bool {
    const BY_ITSELF: Duration = Duration::from_secs(1);
    let signal = |child: &Child, to_child: Signal, below: Signal| {
        for process in Family::read(child.id()).unwrap_or_default().members.into_keys() {
            let signal = if process == child.id() { to_child } else { below };
            for signal in [signal, Signal::SIGCONT] {
                // It may have ended by itself meanwhile.
                let _ = kill(Pid::from_raw(process.cast_signed()), signal);
            }
        }
    };
    if has_ended(child, BY_ITSELF) {
        return true;
    }
    signal(child, Signal::SIGCONT, Signal::SIGTERM);
    if has_ended(child, grace) {
        return true;
    }
    signal(child, Signal::SIGKILL, Signal::SIGKILL);
    has_ended(child, KILLED_WITHIN)
}

fn has_ended(child: &mut Child, within: Duration) -> bool {
    looked_for(within, || !matches!(child.try_wait(), Ok(None)))
}

/// Whether `is_so` within the sum of the waits between looks: where the whole machine stands still, none passes.
fn looked_for(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while !is_so() {
        if waited > within {
            return false;
        }
        thread::sleep(LOOK_INTERVAL);
        waited += LOOK_INTERVAL;
    }
    true
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
    looked_for(within, || {
        loop {
            match next_ended() {
                Ok((Some(_), _)) => {}
                Ok((None, is_any_left)) => return !is_any_left,
                Err(_) => return false,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use corelane_tests::until;

    use super::*;

    /// A shell that runs `script`, once it has written a line.
    fn shell(script: &str) -> (Child, impl BufRead + use<>) {
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        (shell, output)
    }

    fn stop(process: u32) {
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGSTOP).unwrap();
        until("it is stopped", || is_stopped(process));
    }

    #[test]
    fn descendants_are_listed_without_this_process() {
        let (mut shell, _output) = shell("echo ready; read line");
        let (all, _) = descendants().unwrap();
        assert!(
            all.contains(&shell.id()) && !all.contains(&std::process::id()),
            "{all:?}"
        );
        drop(shell.stdin.take());
        assert!(end_child(&mut shell, KILLED_WITHIN));
    }

    #[test]
    fn a_stopped_child_is_continued_and_ends_in_order() {
        let (mut shell, mut output) = shell("echo ready; read line; echo bye");
        assert!(!is_stopped(shell.id()));
        stop(shell.id());
        drop(shell.stdin.take());
        assert!(end_child(&mut shell, KILLED_WITHIN));
        let mut bye = String::new();
        output.read_line(&mut bye).unwrap();
        assert_eq!(bye, "bye\n");
    }

    #[test]
    fn a_child_that_does_not_end_is_killed_with_all_below_it() {
        // Neither the shell nor the one below it heeds SIGTERM; the pipe closes when both have ended.
        let (mut shell, mut output) =
            shell("trap '' TERM; sh -c 'echo ready; while :; do sleep 1000; done' & while :; do wait; done");
        for process in Family::read(shell.id()).unwrap().members.into_keys() {
            stop(process);
        }
        assert!(end_child(&mut shell, Duration::ZERO));
        assert_eq!(output.read_line(&mut String::new()).unwrap(), 0);
    }
}
