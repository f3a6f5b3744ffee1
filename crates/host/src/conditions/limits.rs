//! Limits on this process and on the machine's network.

use super::condition::{About, Condition, Severity};
use crate::cpus::{self, Allowed, Topology, list};
use crate::tree::{Tree, setting_path};

/// The affinity and the cgroup's quota.
pub(super) fn of_process(tree: &Tree, topology: &Topology, allowed: &Allowed) -> [Condition; 2] {
    let online = topology.online();
    let (own, all) = (list::format(&allowed.cpus), list::format(&online));
    let affinity = About {
        name: "affinity",
        source: "/proc/thread-self/status Cpus_allowed_list",
        why: "CPUs outside the affinity or cpuset are not measured, nor is the load on them",
        fix: "start without taskset, or widen cpuset.cpus of the cgroup",
    };
    let narrowed = Severity::Explains.when(allowed.cpus != online);
    let limited = cpus::tightest(tree);
    let (value, severity, source, fix) = match &limited {
        None => {
            let files = "cpu.max or cpu.cfs_quota_us of the cgroup and those above it";
            ("none".to_owned(), Severity::Fine, files.to_owned(), String::new())
        }
        Some((group, cpus)) => {
            let (none, file) = match group.unified {
                true => ("max", "cpu.max"),
                false => ("-1", "cpu.cfs_quota_us"),
            };
            let file = format!("{}/{file}", group.directory);
            let (severity, fix) = match *cpus < allowed.cpus.len() as f64 {
                true => (Severity::Spoils, format!("echo {none} > {file}")),
                false => (Severity::Explains, String::new()),
            };
            (format!("{cpus:.2} CPUs"), severity, file, fix)
        }
    };
    let quota = About {
        name: "cgroup quota",
        source: &source,
        why: "a process that used up its quota is stopped until the period ends, usually 100 ms",
        fix: &fix,
    };
    [
        affinity.found(Ok::<_, String>((format!("CPUs {own} of {all}"), narrowed))),
        quota.found(Ok::<_, String>((value, severity))),
    ]
}

/// A network setting: dotted name, values that explain results, reason, and recommended value.
type Setting = (&'static str, fn(u64) -> bool, &'static str, u64);

/// Each entry states its bounds and their origin.
const SETTINGS: [Setting; 8] = [
    (
        "net.core.rmem_max",
        // 10 ms of scheduling delay at 300,000 datagrams per second of 1.25 KiB buffer space each: 3.75 MiB.
        |bytes| bytes < 4 << 20,
        "a socket's receive buffer can be no larger, so a burst while the worker is not running overflows it",
        16_777_216,
    ),
    (
        "net.core.wmem_max",
        // The kernel's default, which holds some 250 datagrams; with less, senders wait for each other.
        |bytes| bytes < 212_992,
        "a socket's send buffer can be no larger, so sends block or fail sooner",
        4_194_304,
    ),
    (
        "net.core.netdev_max_backlog",
        // The kernel's default.
        |frames| frames < 1000,
        "frames over loopback, veth and RPS queue here; what does not fit is dropped (softnet)",
        10_000,
    ),
    (
        "net.core.netdev_budget",
        // The kernel's default.
        |frames| frames < 300,
        "the receive path stops after so many frames and is resumed later (time squeeze)",
        300,
    ),
    (
        "net.core.optmem_max",
        // 4096 instructions of classic BPF become up to twice as many of 8 bytes each.
        |bytes| bytes < 1 << 16,
        "a steering program longer than this is rejected when it is attached",
        131_072,
    ),
    (
        "net.core.bpf_jit_enable",
        |mode| mode == 0,
        "steering programs are interpreted, which costs several times as much per datagram",
        1,
    ),
    (
        "net.core.busy_poll",
        |microseconds| microseconds > 0,
        "poll and epoll spin on the device instead of waiting, which trades CPU time for latency",
        0,
    ),
    (
        "net.core.busy_read",
        |microseconds| microseconds > 0,
        "reads spin on the device instead of waiting, which trades CPU time for latency",
        0,
    ),
];

/// The machine-wide network settings. Most can be read only outside the namespaces of a test bed.
pub(super) fn of_network(tree: &Tree) -> impl Iterator<Item = Condition> {
    SETTINGS.iter().map(|(name, explains, why, better)| {
        let source = setting_path(name);
        let value = tree.value::<u64>(&source, "a number");
        About {
            name,
            source: &source,
            why,
            fix: &format!("sysctl -w {name}={better}"),
        }
        .found(value.map(|value| (value, Severity::Explains.when(explains(value)))))
    })
}
