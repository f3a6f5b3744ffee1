//! The CPU quota of this process's cgroup.
//!
//! Input: `/proc/self/cgroup`, `/proc/self/mountinfo` and the `cpu` controller's files of version 1 or 2. Output: a
//! number of CPUs, the lowest limit between the process's group and the visible root.

use std::path::Path;

use crate::tree::Tree;

/// The lowest quota, in CPUs; `None` if none is set or visible.
pub(super) fn tightest(tree: &Tree) -> Option<f64> {
    let groups = tree.text("/proc/self/cgroup").ok()?;
    let mounts = tree.text("/proc/self/mountinfo").ok()?;
    groups
        .lines()
        .filter_map(Membership::parse)
        .filter_map(|membership| tightest_of(tree, &mounts, &membership))
        .min_by(f64::total_cmp)
}

/// One line of `/proc/self/cgroup` that can carry a CPU limit (`cgroups(7)`).
struct Membership<'a> {
    /// Whether its interface is version 2.
    unified: bool,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let unified = hierarchy == "0" && controllers.is_empty();
        let limits = unified || controllers.split(',').any(|name| name == "cpu");
        limits.then_some(Self { unified, path })
    }
}

fn tightest_of(tree: &Tree, mounts: &str, membership: &Membership<'_>) -> Option<f64> {
    let (mount_point, group) = mounts.lines().find_map(|line| place(line, membership))?;
    let quotas = Path::new(group).ancestors().filter_map(|ancestor| {
        let relative = ancestor.to_string_lossy();
        let directory = format!("{mount_point}/{}", relative.trim_start_matches('/'));
        quota(tree, directory.trim_end_matches('/'), membership.unified)
    });
    quotas.min_by(f64::total_cmp)
}

/// `(mount point, the group's path below it)` if this line of `mountinfo` mounts the membership's hierarchy.
///
/// Fields by `proc_pid_mountinfo(5)`: the fourth is the part of the hierarchy that is mounted, the fifth the mount
/// point; after a lone `-` come type, source and the super block's options.
fn place<'a>(line: &'a str, membership: &Membership<'a>) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
    let matches = match (membership.unified, after.next()?) {
        (true, kind) => kind == "cgroup2",
        (false, kind) => kind == "cgroup" && after.nth(1)?.split(',').any(|option| option == "cpu"),
    };
    let (root, mount_point) = (before.next()?, before.next()?);
    // In a container the mounted part is the group itself, or the path is relative to an outer root ("/../..").
    let below = membership.path.strip_prefix(root.trim_end_matches('/'));
    let below = below.filter(|below| !below.contains("..") && !below.is_empty());
    matches.then_some((mount_point, below.unwrap_or("/")))
}

/// The limit that one group sets: `cpu.max` holds `max 100000` or `150000 100000` (quota and period in µs), version 1
/// has a file for each and -1 for no limit (`Documentation/admin-guide/cgroup-v2.rst`, `scheduler/sched-bwc.rst`).
fn quota(tree: &Tree, directory: &str, unified: bool) -> Option<f64> {
    let (quota, period) = if unified {
        let text = tree.text(&format!("{directory}/cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        let microseconds = |file: &str| tree.value(&format!("{directory}/{file}"), "microseconds").ok();
        (
            microseconds("cpu.cfs_quota_us")?,
            microseconds("cpu.cfs_period_us")?,
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

    #[test]
    fn the_tightest_limit_on_the_way_to_the_root_counts() {
        let machine = Recorded::new([
            ("/proc/self/cgroup", "0::/user.slice/job\n"),
            ("/proc/self/mountinfo", VERSION_TWO),
            ("/sys/fs/cgroup/user.slice/job/cpu.max", "400000 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(tightest(&machine.tree()), Some(1.5));
    }

    #[test]
    fn no_limit_is_none() {
        let machine = Recorded::new([
            ("/proc/self/cgroup", "0::/job\n"),
            ("/proc/self/mountinfo", VERSION_TWO),
            ("/sys/fs/cgroup/job/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(tightest(&machine.tree()), None);
    }

    #[test]
    fn the_root_of_a_container_is_where_its_group_is_mounted() {
        for group in ["0::/", "0::/../../docker/a1"] {
            let machine = Recorded::new([
                ("/proc/self/cgroup", group),
                ("/proc/self/mountinfo", VERSION_TWO),
                ("/sys/fs/cgroup/cpu.max", "50000 100000"),
            ]);
            assert_eq!(tightest(&machine.tree()), Some(0.5), "{group}");
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
        assert_eq!(tightest(&machine.tree()), Some(2.5));
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
        assert_eq!(tightest(&machine.tree()), None);
    }
}
