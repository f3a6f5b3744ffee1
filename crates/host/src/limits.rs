//! Limits of this process: how many descriptors a table may hold, and how much memory it may lock.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::HostError;

/// Raises the limit of open descriptors to the hard limit (`RLIMIT_NOFILE`) and returns it. The limit applies to each
/// descriptor table: a thread with its own table (`unshare(CLONE_FILES)`) has the whole limit.
///
/// # Errors
///
/// [`HostError::Failed`] if the kernel does not report the limit.
pub fn open_descriptors() -> Result<usize, HostError> {
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.map_err(HostError::process(
        std::process::id(),
        "limit of open descriptors",
    ))?;
    let raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Ok(usize::try_from(if raised { hard } else { soft }).unwrap_or(usize::MAX))
}

/// `CAP_IPC_LOCK` of capabilities(7): memory that is locked is not limited.
const IPC_LOCK: u64 = 1 << 14;

/// Raises the limit of locked memory to the hard limit (`RLIMIT_MEMLOCK`) and returns it, in bytes. `None` if there is
/// none, for this process or because its limit is not known.
#[must_use]
pub fn locked_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    if effective.is_some_and(|set| set & IPC_LOCK != 0) {
        return None;
    }
    let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK).ok()?;
    let raised = soft < hard && setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard).is_ok();
    Some(if raised { hard } else { soft }).filter(|limit| *limit != RLIM_INFINITY)
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
