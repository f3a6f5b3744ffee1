//! Limits of this process: how many descriptors a table may hold.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let limit = open_descriptors().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((limit as u64, soft), (soft, hard));
    }
}
