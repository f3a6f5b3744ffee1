//! What a run needs of this machine, computed before it starts: descriptors, ports, memory, kernel limits; and which of
//! them to raise to what.

use super::plan::HttpPlan;
use crate::sources::LeasedPorts;
use corelane_host::limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

/// Kernel memory of one idle connection end: about 4 kB of `TCP` and `sock_inode_cache` slabs, a file, a dentry, and an
/// epoll item (a pair of ends was measured at 8 kB).
const KERNEL_BYTES_A_CONNECTION: u64 = 4_096;

/// User memory of one connection: at most 512 bytes are aimed at.
const USER_BYTES_A_CONNECTION: u64 = 512;

/// User memory of one worker: three histograms of 250 KiB, buffers of the engine, its stack.
const USER_BYTES_A_WORKER: u64 = 2 << 20;

/// One limit, and what the run needs of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// What is needed.
    pub what: String,
    /// How much.
    pub needed: u64,
    /// How much there is; `None` where it could not be read.
    pub available: Option<u64>,
    /// What to do where that is too little.
    pub remedy: Option<String>,
}

/// Everything that a run needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs(pub Vec<Need>);

impl Needs {
    /// What this plan needs here.
    #[must_use]
    pub fn of(plan: &HttpPlan) -> Self {
        let mut needs = Self::default();
        let connections = plan.connections() as u64;
        let workers = plan.workers.len() as u64;
        let largest = if plan.workers.iter().any(|worker| worker.own_descriptors) {
            plan.workers
                .iter()
                .map(|worker| worker.connections())
                .max()
                .unwrap_or(0) as u64
        } else {
            connections
        };
        let descriptors = limits::open_descriptors().ok().map(|limit| limit as u64);
        needs.add("descriptors a table", largest + 16, descriptors, |needed| {
            format!("raise RLIMIT_NOFILE (ulimit -n) to {needed}, or use more --workers")
        });
        needs.add(
            "open files of the system",
            connections + 1_024,
            sysctl("fs/file-max"),
            |needed| format!("sysctl -w fs.file-max={needed}"),
        );
        needs.add("threads", workers + 16, sysctl("kernel/threads-max"), |needed| {
            format!("sysctl -w kernel.threads-max={needed}")
        });
        let user = connections * USER_BYTES_A_CONNECTION + workers * USER_BYTES_A_WORKER;
        let memory = user + connections * KERNEL_BYTES_A_CONNECTION;
        needs.add(
            "memory of this end, bytes",
            memory,
            available_memory(),
            |needed| format!("free {needed} bytes of memory, or use fewer --connections"),
        );
        needs.kernel_ports(plan);
        needs.conntrack(connections);
        needs
    }

    /// The limits that are too low.
    pub fn lacking(&self) -> impl Iterator<Item = &Need> {
        self.0.iter().filter(|need| need.remedy.is_some())
    }

    fn add(&mut self, what: &str, needed: u64, available: Option<u64>, remedy: impl FnOnce(u64) -> String) {
        let lacks = available.is_some_and(|available| available < needed);
        self.0.push(Need {
            what: what.to_owned(),
            needed,
            available,
            remedy: lacks.then(|| remedy(needed)),
        });
    }

    /// Ports that the kernel is to choose: the range that it chooses from holds for each source address.
    fn kernel_ports(&mut self, plan: &HttpPlan) {
        let mut wanted: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for lease in plan
            .workers
            .iter()
            .flat_map(|worker| &worker.shares)
            .flat_map(|share| &share.leases)
        {
            if lease.ports == LeasedPorts::Kernel {
                *wanted.entry(lease.address).or_default() += lease.connections as u64;
            }
        }
        let Some(most) = wanted.values().copied().max() else {
            return;
        };
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
        let range = range.and_then(|text| {
            let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
            let (first, last) = (ends.next()??, ends.next()??);
            Some(last.saturating_sub(first) + 1)
        });
        self.add("ports that the kernel chooses, an address", most, range, |_| {
            "sysctl -w net.ipv4.ip_local_port_range='1024 65535', or give --sources with more addresses"
                .to_owned()
        });
    }

    /// Where connections are tracked (a firewall does), each takes an entry.
    fn conntrack(&mut self, connections: u64) {
        if let Some(most) = sysctl("net/netfilter/nf_conntrack_max") {
            self.add("tracked connections", connections, Some(most), |needed| {
                format!("sysctl -w net.netfilter.nf_conntrack_max={needed}")
            });
        }
    }
}

fn sysctl(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// `MemAvailable` of `proc_meminfo(5)`.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_little_is_told_with_its_remedy() {
        let mut needs = Needs::default();
        needs.add("threads", 100, Some(99), |needed| format!("raise to {needed}"));
        needs.add("files", 100, Some(100), |_| unreachable!());
        needs.add("unknown", 100, None, |_| unreachable!());
        let lacking: Vec<_> = needs.lacking().map(|need| need.remedy.as_deref()).collect();
        assert_eq!(lacking, [Some("raise to 100")]);
    }
}
