//! Enters a user namespace as root, so that network namespaces can be created without privilege.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::HostError;
use crate::tree::{field, setting_path};

/// Capability numbers of `linux/capability.h`, as bits of `CapEff` in `/proc/thread-self/status`.
const CAP_NET_ADMIN: u64 = 1 << 12;
pub(crate) const CAP_IPC_LOCK: u64 = 1 << 14;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Moves this process into a user namespace in which it is root, unless it can already create network namespaces.
/// Returns whether it moved.
///
/// Call it at the start, while the process has a single thread: the kernel rejects it later. Outside the namespace the
/// process keeps its user and its rights: files it creates belong to the user who started it.
///
/// # Errors
///
/// [`HostError::Failed`] if user namespaces are disabled or exhausted, or the process has several threads. The
/// process can continue without one: [`Bed::build`](super::Bed::build) then uses the loopback device and reports the
/// reason.
pub fn enter_user_namespace() -> Result<bool, HostError> {
    // Network namespaces are created by the first of these, and configured by the second (`namespaces(7)`).
    if has_capabilities(CAP_SYS_ADMIN | CAP_NET_ADMIN) {
        return Ok(false);
    }
    let (user, group) = (geteuid(), getegid());
    let failed = |step, cause: io::Error| {
        let hint = hint(&cause);
        HostError::Failed(format!(
            "cannot enter a user namespace while {step}: {cause}{hint}"
        ))
    };
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| failed("unsharing", errno.into()))?;
    // `user_namespaces(7)`: an unprivileged process may map its own group only after denying `setgroups`.
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(file, text).map_err(|cause| failed("mapping the user to root", cause))?;
    }
    Ok(true)
}

/// Whether this thread has these capabilities in its user namespace.
pub(crate) fn has_capabilities(needed: u64) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    effective_capabilities(&status).is_some_and(|held| held & needed == needed)
}

fn effective_capabilities(status: &str) -> Option<u64> {
    u64::from_str_radix(field(status, "CapEff")?, 16).ok()
}

/// Whether this process runs in a user namespace other than the machine's first, which is the only one to map every id
/// to itself.
pub(crate) fn in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// A hint on what would permit namespaces, derived from the settings that forbid them; empty or begins with "; ".
pub(super) fn hint(cause: &io::Error) -> String {
    const SINGLE_THREAD: i32 = libc::EINVAL;
    if cause.raw_os_error() == Some(SINGLE_THREAD) {
        return "; the process must have a single thread: enter it at the start".to_owned();
    }
    let reads = |name: &str, value: &str| {
        fs::read_to_string(setting_path(name)).is_ok_and(|text| text.trim() == value)
    };
    // The first is an older Debian and Ubuntu setting, the second exists in Ubuntu since 23.10, the third in every
    // kernel.
    let known = [
        ("", "kernel.unprivileged_userns_clone", "0", "=1"),
        ("", "kernel.apparmor_restrict_unprivileged_userns", "1", "=0"),
        ("a ", "user.max_user_namespaces", "0", " above 0"),
    ];
    match known.into_iter().find(|(_, name, forbids, _)| reads(name, forbids)) {
        Some((article, name, _, permits)) => format!("; {article}{name}{permits} would permit it"),
        None => "; run as root, or allow user namespaces in this container (its seccomp profile may forbid unshare)"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000201000\n";
        assert_eq!(
            effective_capabilities(status),
            Some(CAP_NET_ADMIN | CAP_SYS_ADMIN)
        );
        assert_eq!(effective_capabilities("CapEff:\tzz\n"), None);
    }

    #[test]
    fn a_process_with_several_threads_is_rejected_with_the_reason() {
        let shown = hint(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(shown.contains("single thread"), "{shown}");
    }
}
