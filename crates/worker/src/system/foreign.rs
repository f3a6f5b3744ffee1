//! Duplicates descriptors of other processes: pidfd_open(2), pidfd_getfd(2).

use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor of a process, which identifies it even if the process id is reused later.
pub(crate) fn open_process(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0) };
    descriptor(result)
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
