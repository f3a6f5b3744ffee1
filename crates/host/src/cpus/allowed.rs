//! The CPUs that this process may use, and its CPU quota.

use std::io::ErrorKind;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{list, quota};
use crate::HostError;
use crate::tree::{Tree, field};

/// The limits set on the calling thread from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// The CPUs that the calling thread may run on, ascending: its affinity within the cpuset of its cgroup.
    pub cpus: Vec<u32>,
    /// The CPU quota of the cgroup, in CPUs: 1.5 is one and a half CPUs. The lowest limit on the path to the root
    /// counts. `None` if there is no limit or none is visible.
    pub cgroup_quota_cpus: Option<f64>,
}

/// Reads the limits of the calling thread. Threads and processes that it starts inherit them, so call this before
/// pinning.
///
/// The list is `Cpus_allowed_list` of `/proc/thread-self/status`: the kernel keeps a thread's affinity within its
/// cpuset (`cpuset(7)`), and unlike `sched_getaffinity` the file has no fixed size. That is asked if `/proc` is not mounted.
///
/// # Errors
///
/// [`HostError::Missing`] or [`HostError::Failed`] if the list is not as documented in `proc_pid_status(5)`.
pub fn allowed() -> Result<Allowed, HostError> {
    match allowed_in(&Tree::machine()) {
        Err(HostError::Read { cause, .. }) if cause.kind() == ErrorKind::NotFound => affinity(),
        allowed => allowed,
    }
}

pub(crate) fn allowed_in(tree: &Tree) -> Result<Allowed, HostError> {
    const STATUS: &str = "/proc/thread-self/status";
    const FIELD: &str = "Cpus_allowed_list";
    let status = tree.text(STATUS)?;
    let text = field(&status, FIELD).ok_or_else(|| HostError::missing(STATUS, FIELD))?;
    let malformed = || HostError::format(STATUS, "a CPU list such as 0-3,8", text);
    let mut cpus = list::parse(text).ok_or_else(malformed)?;
    // A thread's mask may include offline CPUs, which cannot be used.
    if let Ok(online) = tree.list("/sys/devices/system/cpu/online") {
        cpus.retain(|cpu| online.contains(cpu));
    }
    Ok(Allowed {
        cpus,
        cgroup_quota_cpus: quota::tightest(tree).map(|(_, cpus)| cpus),
    })
}

/// What the kernel says without `/proc`.
fn affinity() -> Result<Allowed, HostError> {
    let refused = |errno| HostError::Failed(format!("cannot read the CPUs of this thread: {errno}"));
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(refused)?;
    let cpus = 0..CpuSet::count();
    Ok(Allowed {
        cpus: cpus
            .filter(|cpu| set.is_set(*cpu) == Ok(true))
            .map(|cpu| cpu as u32)
            .collect(),
        cgroup_quota_cpus: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    #[test]
    fn offline_cpus_of_a_mask_are_left_out() {
        let machine = Recorded::new([
            ("/proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n"),
            ("/sys/devices/system/cpu/online", "0-2,5\n"),
        ]);
        let allowed = allowed_in(&machine.tree()).unwrap();
        assert_eq!(allowed.cpus, vec![0, 1, 2, 5]);
        assert_eq!(allowed.cgroup_quota_cpus, None);
    }

    #[test]
    fn a_status_without_a_mask_is_an_error_that_names_the_field() {
        let machine = Recorded::new([("/proc/thread-self/status", "Name:\tx\n")]);
        let refusal = allowed_in(&machine.tree()).unwrap_err().to_string();
        assert!(refusal.contains("Cpus_allowed_list"), "{refusal}");
    }

    #[test]
    fn without_proc_the_scheduler_names_the_same_cpus() {
        assert_eq!(affinity().unwrap().cpus, allowed().unwrap().cpus);
    }

    #[test]
    fn this_process_may_use_at_least_one_cpu() {
        assert!(!allowed().unwrap().cpus.is_empty());
    }
}
