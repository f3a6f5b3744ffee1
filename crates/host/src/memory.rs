//! The machine's memory nodes, and the policy that selects the node for a thread's memory.
//!
//! Input: `/sys/devices/system/node/has_memory`, `/proc/thread-self/status`, a policy as the user writes it. Output:
//! the nodes ([`nodes`]), the available memory ([`available_bytes`], [`allowed_bytes`]), and a [`MemoryPolicy`] that names only existing
//! nodes. The worker applies it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::HostError;
use crate::cgroup::{Group, groups};
use crate::cpus::list;
use crate::tree::{MEMINFO, Tree, field};

/// The most nodes a kernel is built for: `1 << NODES_SHIFT`, which is at most 10 (`arch/x86/Kconfig`, `arch/arm64/Kconfig`).
pub const MAXIMUM_NODES: u32 = 1024;

/// Selects the node of memory that is touched for the first time. Written `first-touch`, `local`, `interleave` or
/// `node:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPolicy {
    /// The node of the CPU that touches it first. The kernel may later move it to where it is used (automatic NUMA
    /// balancing, `kernel.numa_balancing`). This is the kernel's default, `MPOL_DEFAULT`.
    #[default]
    FirstTouch,
    /// The node of the CPU that touches it first; the memory is never moved: `MPOL_LOCAL`.
    Local,
    /// Pages are spread over all nodes, round robin: `MPOL_INTERLEAVE`.
    Interleave,
    /// This node only. If it is full, allocation fails: `MPOL_BIND`.
    Node(u32),
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryPolicy::FirstTouch => out.write_str("first-touch"),
            MemoryPolicy::Local => out.write_str("local"),
            MemoryPolicy::Interleave => out.write_str("interleave"),
            MemoryPolicy::Node(node) => write!(out, "node:{node}"),
        }
    }
}

/// Memory available to programs without swapping, in bytes, as estimated by the kernel (`MemAvailable` of
/// `proc_meminfo(5)`).
///
/// # Errors
///
/// [`HostError::Read`] or [`HostError::Missing`] if the kernel does not report it.
pub fn available_bytes() -> Result<u64, HostError> {
    Tree::machine().kibibytes(MEMINFO, "MemAvailable")
}

/// Memory that this process may take, in bytes: what is available, or what is left below the limit of a control group,
/// if that is less.
///
/// # Errors
///
/// As [`available_bytes`].
pub fn allowed_bytes() -> Result<u64, HostError> {
    allowed_in(&Tree::machine())
}

fn allowed_in(tree: &Tree) -> Result<u64, HostError> {
    let machine = tree.kibibytes(MEMINFO, "MemAvailable")?;
    let groups = groups(tree, "self", "memory");
    let left = groups.iter().filter_map(|group| left_in(tree, group));
    Ok(left.fold(machine, u64::min))
}

/// What a control group may still use: its limit less what it uses, save cached files that are not in use, which the
/// kernel drops first (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`). `None` without a limit; version
/// 1 has a limit beyond all memory instead.
fn left_in(tree: &Tree, group: &Group) -> Option<u64> {
    let [limit, used, cached] = match group.unified {
        true => ["memory.max", "memory.current", "inactive_file"],
        false => [
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ],
    };
    let (limit, used) = (group.number(tree, limit)?, group.number(tree, used)?);
    let stat = group.text(tree, "memory.stat").unwrap_or_default();
    let mut counts = stat.lines().filter_map(|line| line.split_once(' '));
    let cached = counts.find(|(name, _)| *name == cached);
    let cached = cached.and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// Why a memory policy is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemoryPolicyError {
    /// The text is not a policy.
    #[error("unknown memory policy {0:?}: use first-touch, local, interleave or node:N")]
    Unknown(String),
    /// The node does not exist or may not be used.
    #[error("node {0} does not exist or may not be used: the memory nodes are {nodes}", nodes = list::format(.1))]
    NoNode(u32, Vec<u32>),
}

impl FromStr for MemoryPolicy {
    type Err = MemoryPolicyError;

    fn from_str(text: &str) -> Result<Self, MemoryPolicyError> {
        let policy = match text {
            "first-touch" => Some(MemoryPolicy::FirstTouch),
            "local" => Some(MemoryPolicy::Local),
            "interleave" => Some(MemoryPolicy::Interleave),
            _ => text
                .strip_prefix("node:")
                .and_then(|node| Some(MemoryPolicy::Node(node.parse().ok()?))),
        };
        policy.ok_or_else(|| MemoryPolicyError::Unknown(text.to_owned()))
    }
}

corelane_measure::texts!(MemoryPolicy);

impl MemoryPolicy {
    /// Checks that `nodes` contains every node that the policy names.
    ///
    /// # Errors
    /// [`MemoryPolicyError::NoNode`].
    pub fn check(self, nodes: &[u32]) -> Result<(), MemoryPolicyError> {
        match self {
            MemoryPolicy::Node(node) if !nodes.contains(&node) => {
                Err(MemoryPolicyError::NoNode(node, nodes.to_vec()))
            }
            _ => Ok(()),
        }
    }
}

/// The nodes that have memory and that the calling thread may use, ascending. Node 0 alone on a kernel without NUMA.
///
/// # Errors
/// [`HostError::Failed`] where a file is not as documented in `Documentation/ABI/stable/sysfs-devices-node` or
/// `proc_pid_status(5)`.
pub fn nodes() -> Result<Vec<u32>, HostError> {
    nodes_in(&Tree::machine())
}

fn nodes_in(tree: &Tree) -> Result<Vec<u32>, HostError> {
    const STATUS: &str = "/proc/thread-self/status";
    let mut present = match tree.list("/sys/devices/system/node/has_memory") {
        Err(HostError::Read { .. }) => return Ok(vec![0]),
        present => present?,
    };
    // If the file or the field is missing, the kernel has no cpusets and every node is allowed.
    let status = tree.text(STATUS).unwrap_or_default();
    if let Some(text) = field(&status, "Mems_allowed_list") {
        let malformed = || HostError::format(STATUS, "a node list such as 0-1", text);
        let allowed = list::parse(text).ok_or_else(malformed)?;
        present.retain(|node| allowed.contains(node));
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    #[test]
    fn a_policy_is_read_back_as_it_is_written() {
        for text in ["first-touch", "local", "interleave", "node:0", "node:17"] {
            assert_eq!(text.parse::<MemoryPolicy>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_with_the_ways_to_write_one() {
        for text in ["", "node", "node:", "node:-1", "node:one", "Local", "first touch"] {
            let refused = text.parse::<MemoryPolicy>().unwrap_err().to_string();
            assert!(
                refused.contains("first-touch, local, interleave or node:N"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_named_with_those_that_are() {
        assert_eq!(MemoryPolicy::Node(1).check(&[0, 1]), Ok(()));
        assert_eq!(MemoryPolicy::Interleave.check(&[0]), Ok(()));
        let refused = MemoryPolicy::Node(7).check(&[0, 1, 2]).unwrap_err().to_string();
        assert!(refused.contains("node 7") && refused.contains("0-2"), "{refused}");
    }

    #[test]
    fn nodes_are_those_with_memory_that_the_cpuset_allows() {
        let recorded = Recorded::new([
            ("/sys/devices/system/node/has_memory", "0-2\n"),
            ("/proc/thread-self/status", "Name:\tx\nMems_allowed_list:\t1-3\n"),
        ]);
        assert_eq!(nodes_in(&recorded.tree()).unwrap(), [1, 2]);
    }

    #[test]
    fn a_kernel_without_nodes_has_node_zero() {
        let recorded = Recorded::new([("/proc/thread-self/status", "Name:\tx\n")]);
        assert_eq!(nodes_in(&recorded.tree()).unwrap(), [0]);
    }

    #[test]
    fn the_limit_of_a_control_group_is_less_than_what_the_machine_has() {
        let two = "29 22 0:26 / /cgroup rw - cgroup2 cgroup2 rw\n";
        let machine = Recorded::new([
            (
                "/proc/meminfo",
                "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\n",
            ),
            ("/proc/self/cgroup", "0::/slice/job\n"),
            ("/proc/self/mountinfo", two),
            ("/cgroup/slice/job/memory.max", "max\n"),
            ("/cgroup/slice/job/memory.current", "5\n"),
        ]);
        assert_eq!(allowed_in(&machine.tree()).unwrap(), 1_000_000 << 10);
        machine.write("/cgroup/slice/memory.max", "67108864\n");
        machine.write("/cgroup/slice/memory.current", "20000000\n");
        machine.write(
            "/cgroup/slice/memory.stat",
            "anon 9\ninactive_file 5000000\nactive_file 7\n",
        );
        assert_eq!(allowed_in(&machine.tree()).unwrap(), 67_108_864 - 15_000_000);
        machine.write("/cgroup/slice/memory.current", "90000000\n");
        assert_eq!(
            allowed_in(&machine.tree()).unwrap(),
            0,
            "a limit that was lowered"
        );

        let one = "34 24 0:30 / /cgroup/memory rw - cgroup cgroup rw,memory\n";
        let machine = Recorded::new([
            ("/proc/meminfo", "MemAvailable: 1000000 kB\n"),
            ("/proc/self/cgroup", "5:memory:/job\n"),
            ("/proc/self/mountinfo", one),
            ("/cgroup/memory/job/memory.limit_in_bytes", "67108864\n"),
            ("/cgroup/memory/job/memory.usage_in_bytes", "7108864\n"),
            ("/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/cgroup/memory/memory.usage_in_bytes", "70000000\n"),
        ]);
        assert_eq!(allowed_in(&machine.tree()).unwrap(), 60_000_000);
    }

    #[test]
    fn this_machine_has_a_node() {
        assert!(!nodes().unwrap().is_empty());
    }
}
