//! Limits that were set on this process and on the network of the machine.

use super::{Condition, Severity};
use crate::cpus::{Allowed, Topology, list};
use crate::tree::Tree;

/// The affinity and the cgroup's quota.
pub(super) fn of_process(topology: &Topology, allowed: &Allowed) -> Vec<Condition> {
    vec![affinity(topology, allowed), quota(allowed)]
}

fn affinity(topology: &Topology, allowed: &Allowed) -> Condition {
    let online = topology.online();
    let condition = Condition::known(
        "affinity",
        format!(
            "CPUs {} of {}",
            list::format(&allowed.cpus),
            list::format(&online)
        ),
        "/proc/thread-self/status Cpus_allowed_list",
        "CPUs outside the affinity or cpuset are not measured, and whatever runs there is not seen",
    );
    if allowed.cpus == online {
        condition
    } else {
        condition.rated(
            Severity::Explains,
            "start without taskset, or widen cpuset.cpus of the cgroup",
        )
    }
}

fn quota(allowed: &Allowed) -> Condition {
    const NAME: &str = "cgroup quota";
    const SOURCE: &str = "cpu.max or cpu.cfs_quota_us of the cgroup and those above it";
    const WHY: &str = "a process that used up its quota stands still until the period ends, 100 ms as a rule";
    match allowed.cgroup_quota_cpus {
        None => Condition::known(NAME, "none", SOURCE, WHY),
        Some(cpus) => {
            let condition = Condition::known(NAME, format!("{cpus:.2} CPUs"), SOURCE, WHY);
            if cpus < allowed.cpus.len() as f64 {
                condition.rated(Severity::Spoils, "write max into cpu.max of the cgroup")
            } else {
                condition.lasting(Severity::Explains)
            }
        }
    }
}

/// A network setting that explains results on one side of a bound.
struct Setting {
    name: &'static str,
    explains: fn(u64) -> bool,
    why: &'static str,
    mend: &'static str,
}

/// The bounds and where they come from are given with each.
const SETTINGS: [Setting; 8] = [
    Setting {
        name: "net.core.rmem_max",
        // 10 ms, a scheduler's absence, of 300,000 datagrams a second that cost 1.25 KiB each in the buffer: 3.75 MiB.
        explains: |bytes| bytes < 4 << 20,
        why: "a socket's receive buffer can be no larger, so a burst while the worker is away overflows it: full buffers",
        mend: "sysctl -w net.core.rmem_max=16777216",
    },
    Setting {
        name: "net.core.wmem_max",
        // The kernel's default, which holds some 250 datagrams; less makes senders wait for each other.
        explains: |bytes| bytes < 212_992,
        why: "a socket's send buffer can be no larger, so a sender waits or fails sooner",
        mend: "sysctl -w net.core.wmem_max=4194304",
    },
    Setting {
        name: "net.core.netdev_max_backlog",
        // The kernel's default.
        explains: |frames| frames < 1000,
        why: "frames over loopback, veth and RPS queue here; what does not fit is dropped (softnet)",
        mend: "sysctl -w net.core.netdev_max_backlog=10000",
    },
    Setting {
        name: "net.core.netdev_budget",
        // The kernel's default.
        explains: |frames| frames < 300,
        why: "the receive path stops after so many frames and is resumed later (time squeeze)",
        mend: "sysctl -w net.core.netdev_budget=300",
    },
    Setting {
        name: "net.core.optmem_max",
        // 4096 instructions of classic BPF become up to twice as many of 8 bytes each.
        explains: |bytes| bytes < 1 << 16,
        why: "a steering program longer than this is refused when it is attached",
        mend: "sysctl -w net.core.optmem_max=131072",
    },
    Setting {
        name: "net.core.bpf_jit_enable",
        explains: |mode| mode == 0,
        why: "steering programs are interpreted, which costs each datagram several times as much",
        mend: "sysctl -w net.core.bpf_jit_enable=1",
    },
    Setting {
        name: "net.core.busy_poll",
        explains: |microseconds| microseconds > 0,
        why: "poll and epoll spin on the device instead of waiting, which trades CPU time for latency",
        mend: "sysctl -w net.core.busy_poll=0",
    },
    Setting {
        name: "net.core.busy_read",
        explains: |microseconds| microseconds > 0,
        why: "reads spin on the device instead of waiting, which trades CPU time for latency",
        mend: "sysctl -w net.core.busy_read=0",
    },
];

/// The machine-wide network settings. Most can be read only outside the namespaces of a test bed.
pub(super) fn of_network(tree: &Tree) -> Vec<Condition> {
    SETTINGS.iter().map(|setting| judge(tree, setting)).collect()
}

fn judge(tree: &Tree, setting: &Setting) -> Condition {
    let path = format!("/proc/sys/{}", setting.name.replace('.', "/"));
    match tree.value::<u64>(&path, "a number") {
        Ok(value) => {
            let condition = Condition::known(setting.name, value, path, setting.why);
            if (setting.explains)(value) {
                condition.rated(Severity::Explains, setting.mend)
            } else {
                condition
            }
        }
        Err(error) => Condition::unknown(setting.name, error, path, setting.why),
    }
}
