//! Interrupting one thread's wait: a signal that does nothing, blocked except while an engine waits.
//!
//! A descriptor (an eventfd) cannot serve: workers may have descriptor tables of their own, and in another table the same
//! number is nothing, or something else. A thread id means the same everywhere in the process.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::io;
use std::sync::OnceLock;

/// SIGURG: ignored by default, so harmless when stray, and passed silently by debuggers. The kernel raises it only for
/// owners of sockets with urgent TCP data, which nothing here asks for.
const SIGNAL: Signal = Signal::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// Installs the handler (once a process) and blocks the signal in the calling thread. Returns the signal mask to wait
/// with: the thread's own, the signal let through.
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
    // SAFETY: the handler does nothing, which is safe at any moment.
    unsafe { sigaction(SIGNAL, &action) }.map(drop)
}

/// The calling thread's id, for [`interrupt`].
pub(crate) fn this_thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// Interrupts a thread of this process that waits. When the thread has ended nothing happens; should another thread of
/// this process have got its number, that one runs an empty handler and its system call is restarted.
pub(crate) fn interrupt(thread: i32) {
    let process = nix::unistd::getpid().as_raw();
    // SAFETY: the call takes numbers alone; the signal's handler is empty. Its only failure, a thread that ended, needs
    // no answer.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL as libc::c_int) };
}
