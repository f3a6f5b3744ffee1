//! Which CPUs this process may use, and how much of them.

use serde::{Deserialize, Serialize};

use super::{list, quota};
use crate::HostError;
use crate::tree::{Tree, field};

/// The limits set on the calling thread from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// The CPUs the calling thread may run on, ascending: its affinity within the cpuset of its cgroup.
    pub cpus: Vec<u32>,
    /// How many CPUs' worth of time the cgroup grants, 1.5 being three halves of one CPU. The tightest limit on the
    /// way up to the root counts. `None` where there is no limit, or none can be seen.
    pub cgroup_quota_cpus: Option<f64>,
}

/// Reads the limits of the calling thread. Threads and processes it starts inherit them, so ask before pinning.
///
/// The list is `Cpus_allowed_list` of `/proc/thread-self/status`: the kernel keeps a thread's affinity within its
/// cpuset (`cpuset(7)`), and unlike `sched_getaffinity` the file has no size to outgrow.
///
/// # Errors
///
/// [`HostError::Read`] where `/proc` is not mounted, [`HostError::Missing`] or [`HostError::Format`] where the list is
/// not as documented in `proc_pid_status(5)`.
pub fn allowed() -> Result<Allowed, HostError> {
    allowed_in(&Tree::machine())
}

pub(crate) fn allowed_in(tree: &Tree) -> Result<Allowed, HostError> {
    const STATUS: &str = "/proc/thread-self/status";
    const FIELD: &str = "Cpus_allowed_list";
    let status = tree.text(STATUS)?;
    let text = field(&status, FIELD).ok_or_else(|| HostError::missing(STATUS, FIELD))?;
    let malformed = || HostError::format(STATUS, "a CPU list such as 0-3,8", text);
    let mut cpus = list::parse(text).ok_or_else(malformed)?;
    // A thread's mask may name CPUs that are offline; they cannot be used.
    if let Ok(online) = tree.list("/sys/devices/system/cpu/online") {
        cpus.retain(|cpu| online.contains(cpu));
    }
    Ok(Allowed {
        cpus,
        cgroup_quota_cpus: quota::tightest(tree),
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
    fn this_process_may_use_at_least_one_cpu() {
        assert!(!allowed().unwrap().cpus.is_empty());
    }
}
