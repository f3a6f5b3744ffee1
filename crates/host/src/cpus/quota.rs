//! The CPU quota of control groups.
//!
//! Input: the `cpu` controller's files of version 1 or 2, of the groups of a process. Output: a number of CPUs, the lowest
//! limit between the process's group and the visible root.

use crate::cgroup::{Group, groups};
use crate::tree::Tree;

/// The group of this process with the lowest quota, and the quota in CPUs; `None` if none is set or visible.
pub(crate) fn tightest(tree: &Tree) -> Option<(Group, f64)> {
    let groups = groups(tree, "self", "cpu").into_iter();
    let limited = groups.filter_map(|group| {
        let cpus = quota(tree, &group)?;
        Some((group, cpus))
    });
    limited.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// The limit that one group sets: `cpu.max` holds `max 100000` or `150000 100000` (quota and period in µs), version 1
/// has a file for each and -1 for no limit (`Documentation/admin-guide/cgroup-v2.rst`, `scheduler/sched-bwc.rst`).
pub(crate) fn quota(tree: &Tree, group: &Group) -> Option<f64> {
    let (quota, period) = if group.unified {
        let text = group.text(tree, "cpu.max")?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        (
            group.number(tree, "cpu.cfs_quota_us")?,
            group.number(tree, "cpu.cfs_period_us")?,
        )
    };
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    const VERSION_TWO: &str =
        "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn cpus(tree: &Tree) -> Option<f64> {
        tightest(tree).map(|(_, cpus)| cpus)
    }

    #[test]
    fn the_tightest_limit_on_the_way_to_the_root_counts() {
        let machine = Recorded::new([
            ("/proc/self/cgroup", "0::/user.slice/job\n"),
            ("/proc/self/mountinfo", VERSION_TWO),
            ("/sys/fs/cgroup/user.slice/job/cpu.max", "400000 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(cpus(&machine.tree()), Some(1.5));
    }

    #[test]
    fn no_limit_is_none() {
        let machine = Recorded::new([
            ("/proc/self/cgroup", "0::/job\n"),
            ("/proc/self/mountinfo", VERSION_TWO),
            ("/sys/fs/cgroup/job/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(cpus(&machine.tree()), None);
    }

    #[test]
    fn the_root_of_a_container_is_where_its_group_is_mounted() {
        for group in ["0::/", "0::/../../docker/a1"] {
            let machine = Recorded::new([
                ("/proc/self/cgroup", group),
                ("/proc/self/mountinfo", VERSION_TWO),
                ("/sys/fs/cgroup/cpu.max", "50000 100000"),
            ]);
            assert_eq!(cpus(&machine.tree()), Some(0.5), "{group}");
        }
    }

    #[test]
    fn version_one_limits_are_read_below_their_own_mount() {
        let machine = Recorded::new([
            (
                "/proc/self/cgroup",
                "5:memory:/job\n4:cpu,cpuacct:/docker/a1\n0::/\n",
            ),
            (
                "/proc/self/mountinfo",
                "33 24 0:29 /docker/a1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(cpus(&machine.tree()), Some(2.5));
    }

    #[test]
    fn a_version_one_quota_of_minus_one_is_no_limit() {
        let machine = Recorded::new([
            ("/proc/self/cgroup", "1:cpu:/"),
            (
                "/proc/self/mountinfo",
                "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
            ),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(cpus(&machine.tree()), None);
    }
}
