//! Gives a thread a separate descriptor table.

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Standard input, output and error stay open in every table, for reports and messages.
const FIRST_CLOSED: u32 = 3;

/// Gives the calling thread a separate descriptor table and closes everything in it except the standard streams and
/// `kept`, which are returned as descriptors owned in the new table.
///
/// `kept` must be open, contain no duplicates, and be owned in the old table by a value that outlives this call.
pub(crate) fn own_table(mut kept: Vec<RawFd>) -> io::Result<Vec<OwnedFd>> {
    unshare(CloneFlags::CLONE_FILES)?;
    let order = kept.clone();
    kept.sort_unstable();
    let mut first = FIRST_CLOSED;
    for descriptor in kept {
        let descriptor = descriptor as u32;
        if descriptor < first {
            continue;
        }
        close_range(first, descriptor.wrapping_sub(1))?;
        first = descriptor + 1;
    }
    close_range(first, u32::MAX)?;
    // SAFETY: `unshare` copied each of these numbers into this thread's new table, they were not closed above, and
    // nothing else in this table owns them.
    let owned = |descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(order.into_iter().map(owned).collect())
}

/// Closes the descriptors from `first` to `last`, inclusive; nothing if the range is empty.
fn close_range(first: u32, last: u32) -> io::Result<()> {
    if last < first {
        return Ok(());
    }
    // SAFETY: the table was just copied for this thread only, so that nothing else in the process uses these numbers in
    // it.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    Ok(Errno::result(result).map(drop)?)
}
