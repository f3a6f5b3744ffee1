//! Duplicates descriptors of other processes: pidfd_open(2), pidfd_getfd(2).

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor of a process, which identifies it even if the process id is reused later.
pub(crate) fn open_process(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0) };
    descriptor(result)
}

/// Whether a process has ended: its descriptor is readable then.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut polled, 0u8), Ok(1..))
}

/// A duplicate of a descriptor of another process. It refers to the same open file; closing it does not close the
/// other.
pub(crate) fn duplicate(process: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    descriptor(result)
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    Errno::result(result)?;
    // SAFETY: the kernel created this descriptor for the caller, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
