//! A descriptor table of one's own, for a thread.

use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Standard input, output and error stay open in every table: reports and messages go there.
const FIRST_CLOSED: u32 = 3;

/// Gives the calling thread a descriptor table of its own and closes everything in it but the standard streams and
/// `kept`, which come back as descriptors that the new table owns.
///
/// `kept` must be open, each named once, and owned in the old table by someone who outlives this call.
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
    // SAFETY: each number was copied into this thread's new table by `unshare`, was spared above, and nothing else in
    // this table owns it.
    let owned = |descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(order.into_iter().map(owned).collect())
}

/// Closes the descriptors from `first` to `last`, both included; nothing when that is empty.
fn close_range(first: u32, last: u32) -> io::Result<()> {
    if last < first {
        return Ok(());
    }
    // SAFETY: the table was just copied for this thread alone, so that nothing else in the process uses these numbers.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
