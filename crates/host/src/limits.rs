//! Limits of this process: how many descriptors a table may hold, and how much memory it may lock.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::HostError;
use crate::bed::user_namespace::{CAP_IPC_LOCK, has_capabilities, in_user_namespace};

/// Raises the limit of open descriptors to the hard limit (`RLIMIT_NOFILE`) and returns it. The limit applies to each
/// descriptor table: a thread with its own table (`unshare(CLONE_FILES)`) has the whole limit.
///
/// # Errors
///
/// [`HostError::Failed`] if the kernel does not report the limit.
pub fn open_descriptors() -> Result<usize, HostError> {
    let limit = raised(Resource::RLIMIT_NOFILE);
    let limit = limit.map_err(HostError::process(
        std::process::id(),
        "limit of open descriptors",
    ))?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// As [`open_descriptors`], and raises the hard limit to `needed` if it is lower and that is permitted (CAP_SYS_RESOURCE).
///
/// # Errors
///
/// [`HostError::Failed`] if the kernel does not report the limit.
pub fn open_descriptors_for(needed: usize) -> Result<usize, HostError> {
    if open_descriptors()? < needed {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed as u64, needed as u64);
    }
    open_descriptors()
}

/// Removes the limit of the size of core files, or raises it to the hard limit, and returns it, in bytes.
#[must_use]
pub fn core_files() -> u64 {
    let _ = setrlimit(Resource::RLIMIT_CORE, RLIM_INFINITY, RLIM_INFINITY);
    raised(Resource::RLIMIT_CORE).unwrap_or(0)
}

/// Removes the limit of locked memory if that is permitted, or raises it to the hard limit. `None` if there is none, for this
/// process and whatever user it becomes.
#[must_use]
pub fn lockable_memory() -> Option<u64> {
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    raised(Resource::RLIMIT_MEMLOCK)
        .ok()
        .filter(|limit| *limit != RLIM_INFINITY)
}

/// Raises the limit of locked memory to the hard limit (`RLIMIT_MEMLOCK`) and returns it, in bytes. `None` if there is
/// none, for this process or because its limit is not known.
#[must_use]
pub fn locked_memory() -> Option<u64> {
    // Only the capability in the machine's first user namespace lifts it (`capable` in `kernel/capability.c`).
    if has_capabilities(CAP_IPC_LOCK) && !in_user_namespace() {
        return None;
    }
    raised(Resource::RLIMIT_MEMLOCK)
        .ok()
        .filter(|limit| *limit != RLIM_INFINITY)
}

/// Raises a limit of this process to the hard one, if that is permitted, and returns it.
fn raised(resource: Resource) -> nix::Result<u64> {
    let (soft, hard) = getrlimit(resource)?;
    let raised = soft < hard && setrlimit(resource, hard, hard).is_ok();
    Ok(if raised { hard } else { soft })
}

/// Whether the kernel counts the queues of io_uring as locked memory: since Linux 6.14.
#[must_use]
pub fn rings_are_counted() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| is_from(&release, (6, 14)))
}

/// Whether a kernel release is that version or a later one.
fn is_from(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    matches!((next(), next()), (Some(major), Some(minor)) if (major, minor) >= version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, expected) in [
            ("6.14.0-rc1", true),
            ("6.18.44-fc", true),
            ("7.0", true),
            ("6.9.12", false),
            ("5.15.0-91-generic", false),
            ("", false),
        ] {
            assert_eq!(is_from(release, (6, 14)), expected, "{release}");
        }
    }

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let limit = open_descriptors().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((limit as u64, soft), (soft, hard));
    }
}
