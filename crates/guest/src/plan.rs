//! The plan of a guest: its hardware, files and command.

use crate::GuestError;
use std::path::PathBuf;
use std::time::Duration;

/// The most CPUs: each is a thread of the emulator.
const MOST_CPUS: u32 = 64;

/// The most nodes, each with a CPU of its own.
const MOST_NODES: u32 = 8;

/// Least memory of a node: the kernel and the unpacked image have to fit.
const LEAST_NODE_BYTES: u64 = 128 << 20;

/// The plan of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPlan {
    /// Total CPUs, divided equally among the nodes: with 4 CPUs and 2 nodes, CPUs 0 and 1 are on node 0.
    pub cpus: u32,
    /// Memory nodes; `cpus` is a multiple of it.
    pub nodes: u32,
    /// Memory of each node, in bytes; rounded up to whole MiB.
    pub node_bytes: u64,
    /// Whether each CPU is emulated by a thread of its own, so that CPUs run at the same time and contend. QEMU 10 then fails
    /// an assertion now and then when a device's memory moves (`iotlb_to_section`), and a CPU that gets no time stalls the
    /// others: one thread for all, the default, is for tests.
    pub concurrent_cpus: bool,
    /// More arguments of the emulator, such as `-netdev` and `-device` with their values.
    pub devices: Vec<String>,
    /// Words added to the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Kernel modules to load before the command, in this order: see
    /// [`GuestParts::modules`](crate::GuestParts::modules).
    pub modules: Vec<PathBuf>,
    /// Programs of this machine: each is put into `/bin` with the shared libraries it needs.
    pub programs: Vec<PathBuf>,
    /// Other files.
    pub files: Vec<GuestFile>,
    /// The command, run by busybox's shell as root, with `/proc`, `/sys`, `/dev` and `/tmp` mounted and loopback up.
    /// Its standard output and standard error are the guest's output.
    pub command: String,
    /// The time limit, including boot.
    pub limit: Duration,
}

/// A file to copy into the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Path on this machine.
    pub source: PathBuf,
    /// Path in the guest, relative to its root.
    pub target: String,
}

impl GuestPlan {
    /// A guest of one node with one CPU and 512 MiB that runs `command`, within a minute.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            cpus: 1,
            nodes: 1,
            node_bytes: 512 << 20,
            concurrent_cpus: false,
            devices: Vec::new(),
            kernel_arguments: Vec::new(),
            modules: Vec::new(),
            programs: Vec::new(),
            files: Vec::new(),
            command: command.into(),
            limit: Duration::from_secs(60),
        }
    }

    /// Checks whether the machine is possible.
    pub(crate) fn check(&self) -> Result<(), GuestError> {
        let refuse = |what: String, fix| Err(GuestError::Failed(format!("the plan asks for {what}: {fix}")));
        if self.nodes == 0 || self.nodes > MOST_NODES {
            return refuse(format!("{} nodes", self.nodes), "give 1 to 8");
        }
        if self.cpus == 0 || self.cpus > MOST_CPUS || !self.cpus.is_multiple_of(self.nodes) {
            let what = format!("{} CPUs on {} nodes", self.cpus, self.nodes);
            return refuse(what, "give 1 to 64, as many on each node");
        }
        if self.node_bytes < LEAST_NODE_BYTES {
            let what = format!("{} bytes a node", self.node_bytes);
            return refuse(what, "give at least 128 MiB");
        }
        Ok(())
    }

    /// The emulator's arguments for the threads that emulate, CPUs, memory and nodes.
    pub(crate) fn machine_arguments(&self) -> Vec<String> {
        let mebibytes = self.node_bytes.div_ceil(1 << 20);
        let memory = mebibytes * u64::from(self.nodes);
        let threads = if self.concurrent_cpus { "multi" } else { "single" };
        let mut arguments = format!("-accel tcg,thread={threads} -smp {} -m {memory}M", self.cpus);
        let share = self.cpus / self.nodes;
        for node in 0..self.nodes {
            let (first, last) = (node * share, node * share + share - 1);
            arguments += &format!(
                " -object memory-backend-ram,id=node{node},size={mebibytes}M \
                 -numa node,nodeid={node},cpus={first}-{last},memdev=node{node}"
            );
        }
        arguments.split(' ').map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_spread_over_nodes_in_equal_runs() {
        let plan = GuestPlan {
            cpus: 4,
            nodes: 2,
            ..GuestPlan::new("true")
        };
        let arguments = plan.machine_arguments().join(" ");
        assert!(
            arguments.starts_with("-accel tcg,thread=single -smp 4 -m 1024M "),
            "{arguments}"
        );
        assert!(
            arguments.contains("nodeid=0,cpus=0-1,memdev=node0"),
            "{arguments}"
        );
        assert!(
            arguments.contains("nodeid=1,cpus=2-3,memdev=node1"),
            "{arguments}"
        );
    }

    #[test]
    fn machines_that_cannot_be_are_refused_with_what_can() {
        for (cpus, nodes) in [(0, 1), (1, 0), (3, 2), (65, 1), (9, 9)] {
            let plan = GuestPlan {
                cpus,
                nodes,
                ..GuestPlan::new("true")
            };
            assert!(plan.check().unwrap_err().to_string().contains("give 1 to"));
        }
        let small = GuestPlan {
            node_bytes: 1 << 20,
            ..GuestPlan::new("true")
        };
        assert!(small.check().is_err());
        assert!(GuestPlan::new("true").check().is_ok());
    }
}
