//! What a CPU quota took from a process: the throttling of its control groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use corelane_measure::counters::Counters;
use corelane_measure::quantity;

use super::family::with_descendants;
use super::kernel::kernel_counters;
use crate::cgroup::{Group, groups};
use crate::cpus::quota;
use crate::tree::Tree;

kernel_counters! {
    /// Throttling of one group with a quota (`cpu.stat`: `Documentation/admin-guide/cgroup-v2.rst`,
    /// `Documentation/scheduler/sched-bwc.rst`).
    pub struct Throttled {
        /// Periods in which the group ran.
        periods: "nr_periods",
        /// Periods in which it had used up its quota.
        throttled_periods: "nr_throttled",
        /// Nanoseconds for which its threads were stopped, summed over the CPUs.
        throttled_ns: "throttled_time",
    }
}

impl Throttled {
    fn read(tree: &Tree, group: &Group) -> Option<Self> {
        let text = group.text(tree, "cpu.stat")?;
        let number = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(found, _)| *found == name)?.1.parse::<u64>().ok()
        };
        Some(Self::by_name(|name| match name {
            // Version 2 has microseconds, under a name of its own.
            "throttled_time" => number(name).or_else(|| Some(number("throttled_usec")? * 1000)),
            name => number(name),
        }))
    }
}

/// The throttling of every group with a quota of a process and its descendants, at one moment.
#[derive(Clone, Debug)]
pub struct Throttling {
    at: Instant,
    /// The quota in CPUs, and what it took, by the directory of the group.
    groups: BTreeMap<String, (f64, Throttled)>,
}

impl Throttling {
    /// Reads it for `process` and its descendants, which may be in groups of their own. Empty if no quota is set or
    /// visible.
    #[must_use]
    pub fn read(process: u32) -> Self {
        Self::read_in(&Tree::machine(), &with_descendants(process).unwrap_or_default())
    }

    fn read_in(tree: &Tree, processes: &[u32]) -> Self {
        let processes = processes.iter().map(ToString::to_string);
        let groups: BTreeSet<Group> = processes
            .flat_map(|process| groups(tree, &process, "cpu"))
            .collect();
        let limited = groups.into_iter().filter_map(|group| {
            let (cpus, throttled) = (quota(tree, &group)?, Throttled::read(tree, &group)?);
            Some((group.directory, (cpus, throttled)))
        });
        Self {
            at: Instant::now(),
            groups: limited.collect(),
        }
    }

    /// The quota that was the limit since `earlier`: that of the group which was stopped longest, if for more than 1 % of
    /// the time.
    #[must_use]
    pub fn limit_since(&self, earlier: &Self) -> Option<Quota> {
        let since = self.groups.iter().map(|(group, (cpus, throttled))| {
            let before = earlier.groups.get(group).map(|(_, before)| *before);
            let before = before.unwrap_or_default();
            Quota {
                group: group.clone(),
                cpus: *cpus,
                throttled: throttled.since(&before),
            }
        });
        let longest = since.max_by_key(|quota| quota.throttled.throttled_ns)?;
        let stopped = Duration::from_nanos(longest.throttled.throttled_ns);
        (stopped > (self.at - earlier.at).mul_f64(LEAST_STOPPED)).then_some(longest)
    }
}

/// Below this share of a time, a quota that stopped a process was not its limit.
const LEAST_STOPPED: f64 = 0.01;

/// A CPU quota that was a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// The directory of the control group.
    pub group: String,
    /// The quota, in CPUs.
    pub cpus: f64,
    /// What it took.
    pub throttled: Throttled,
}

impl Quota {
    /// The words that complete "the limit was": `whose` control group it is ("its", "the server's").
    #[must_use]
    pub fn words(&self, whose: &str) -> String {
        let (group, cpus) = (&self.group, self.cpus);
        let Throttled {
            periods,
            throttled_periods,
            throttled_ns,
        } = self.throttled;
        let stopped = quantity::duration(throttled_ns as f64);
        format!(
            "the CPU quota of {whose} control group {group} ({cpus:.2} CPUs): used up in {throttled_periods} of {periods} \
             periods, threads stopped for {stopped}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    /// A reading before any group had a quota.
    fn nothing() -> Throttling {
        Throttling {
            at: Instant::now(),
            groups: BTreeMap::new(),
        }
    }

    #[test]
    fn the_group_that_was_stopped_longest_is_the_limit_in_both_versions() {
        let two = "29 22 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n";
        let machine = Recorded::new([
            ("/proc/7/cgroup", "0::/slice/job\n"),
            ("/proc/self/mountinfo", two),
            ("/cgroup/slice/job/cpu.max", "400000 100000\n"),
            (
                "/cgroup/slice/job/cpu.stat",
                "usage_usec 9\nnr_periods 5\nnr_throttled 1\nthrottled_usec 100\n",
            ),
            ("/cgroup/slice/cpu.max", "20000 100000\n"),
            (
                "/cgroup/slice/cpu.stat",
                "nr_periods 10\nnr_throttled 2\nthrottled_usec 1000\n",
            ),
            ("/cgroup/cpu.stat", "usage_usec 9\n"),
        ]);
        let before = Throttling::read_in(&machine.tree(), &[7]);
        machine.write(
            "/cgroup/slice/cpu.stat",
            "nr_periods 40\nnr_throttled 31\nthrottled_usec 2301000\nnr_bursts 0\n",
        );
        let after = Throttling::read_in(&machine.tree(), &[7]);
        let quota = after.limit_since(&before).unwrap();
        assert_eq!((quota.group.as_str(), quota.cpus), ("/cgroup/slice", 0.2));
        assert_eq!(
            quota.words("the server's"),
            "the CPU quota of the server's control group /cgroup/slice (0.20 CPUs): used up in 29 of 30 periods, threads \
             stopped for 2.3 s"
        );
        assert_eq!(after.limit_since(&after), None);
        let late = Throttling {
            at: before.at + Duration::from_secs(300),
            ..after
        };
        assert_eq!(late.limit_since(&before), None, "less than 1 % of the time");

        let one = "33 24 0:29 / /cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let machine = Recorded::new([
            ("/proc/7/cgroup", "1:cpu:/job\n"),
            ("/proc/self/mountinfo", one),
            ("/cgroup/cpu/job/cpu.cfs_quota_us", "20000"),
            ("/cgroup/cpu/job/cpu.cfs_period_us", "100000"),
            (
                "/cgroup/cpu/job/cpu.stat",
                "nr_periods 30\nnr_throttled 29\nthrottled_time 2300000000\n",
            ),
        ]);
        let before = nothing();
        let quota = Throttling::read_in(&machine.tree(), &[7]).limit_since(&before);
        let expected = Throttled {
            periods: 30,
            throttled_periods: 29,
            throttled_ns: 2_300_000_000,
        };
        assert_eq!(quota.map(|quota| quota.throttled), Some(expected));
    }

    #[test]
    fn a_descendant_in_a_group_of_its_own_counts() {
        let machine = Recorded::new([
            ("/proc/7/cgroup", "0::/\n"),
            ("/proc/8/cgroup", "0::/job\n"),
            (
                "/proc/self/mountinfo",
                "29 22 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("/cgroup/job/cpu.max", "20000 100000\n"),
            (
                "/cgroup/job/cpu.stat",
                "nr_periods 30\nnr_throttled 29\nthrottled_usec 2300000\n",
            ),
        ]);
        let before = nothing();
        let quota = Throttling::read_in(&machine.tree(), &[7, 8]).limit_since(&before);
        assert_eq!(quota.map(|quota| quota.group).as_deref(), Some("/cgroup/job"));
    }

    #[test]
    fn a_group_without_a_quota_is_no_limit() {
        let machine = Recorded::new([
            ("/proc/7/cgroup", "0::/job\n"),
            (
                "/proc/self/mountinfo",
                "29 22 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("/cgroup/job/cpu.max", "max 100000\n"),
            (
                "/cgroup/job/cpu.stat",
                "nr_periods 5\nnr_throttled 5\nthrottled_usec 9000000\n",
            ),
        ]);
        let throttling = Throttling::read_in(&machine.tree(), &[7]);
        assert!(throttling.groups.is_empty(), "{throttling:?}");
    }
}
