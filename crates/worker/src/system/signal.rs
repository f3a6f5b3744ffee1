//! Interrupts the wait of one thread, by a signal with an empty handler that is blocked except while an engine waits.
//!
//! An eventfd does not work: workers may have separate descriptor tables, in which the same number is unused or refers
//! to another file. A thread id is valid in the whole process.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::io;
use std::sync::OnceLock;

/// SIGURG: ignored by default, so that a stray one is harmless, and passed silently by debuggers. The kernel sends it
/// only to owners of sockets with urgent TCP data, which nothing here requests.
const SIGNAL: Signal = Signal::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// Installs the handler (once per process) and blocks the signal in the calling thread. Returns the signal mask for
/// waits: the thread's own mask, with the signal unblocked.
pub(crate) fn prepare() -> io::Result<SigSet> {
    static INSTALLED: OnceLock<Result<(), nix::Error>> = OnceLock::new();
    (*INSTALLED.get_or_init(install))?;
    let mut while_waiting = SigSet::thread_get_mask()?;
    let mut blocked = SigSet::empty();
    blocked.add(SIGNAL);
    blocked.thread_block()?;
    while_waiting.remove(SIGNAL);
    Ok(while_waiting)
}

fn install() -> Result<(), nix::Error> {
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing, so it is async-signal-safe.
    unsafe { sigaction(SIGNAL, &action) }.map(drop)
}

/// The calling thread's id, for [`interrupt`].
pub(crate) fn this_thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// Interrupts a waiting thread of this process. If the thread has ended, nothing happens; if another thread of this
/// process has got its id, that thread runs an empty handler and its system call is restarted.
pub(crate) fn interrupt(thread: i32) {
    let process = nix::unistd::getpid().as_raw();
    // SAFETY: the call takes only numbers, and the signal's handler is empty. The result is ignored: the call fails
    // only if the thread has ended.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL as libc::c_int) };
}
