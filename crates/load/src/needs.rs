//! What a run requires of this machine, computed before it starts: descriptors, ports, memory, kernel limits, and how
//! to raise those that are too low.

use crate::sources::{Lease, PlannedWorker, Ports};
use corelane_host::bed::{self, Change};
use corelane_host::{limits, memory};
use corelane_measure::quantity;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Kernel memory of one idle connection end: about 4 kB of `TCP` and `sock_inode_cache` slabs, a file, a dentry, and an
/// epoll item (8 kB measured per pair of ends).
const KERNEL_BYTES_A_CONNECTION: u64 = 4_096;

/// User memory per connection: the target is at most 512 bytes.
const USER_BYTES_A_CONNECTION: u64 = 512;

/// Additional memory per TLS session: keys, the server's certificates, a ticket (4.4 kB measured with a certificate of
/// 360 bytes).
const USER_BYTES_A_SESSION: u64 = 5_120;

/// Memory of a histogram of durations.
pub(crate) const HISTOGRAM_BYTES: u64 = 250 << 10;

/// User memory per worker: three histograms, engine buffers, the stack.
const USER_BYTES_A_WORKER: u64 = 2 << 20;

const MEMORY: &str = "memory of this end, bytes";

const ADDRESSES: &str = "addresses that have to be this host's own";

/// One limit, and the amount that the run requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The required resource.
    pub what: String,
    /// The required amount.
    pub needed: u64,
    /// The available amount; `None` if it could not be read.
    pub available: Option<u64>,
    /// How to raise the limit.
    pub remedy: Option<String>,
    /// How to raise the limit inside the run's network namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

impl Need {
    /// The needed and the available amount, and how to raise the limit.
    #[must_use]
    pub fn text(&self) -> String {
        let remedy = self.remedy.as_deref().unwrap_or_default();
        let available = self.available.unwrap_or_default();
        let Self { needed, what, .. } = self;
        if what == MEMORY {
            let [needed, available] = [*needed, available].map(quantity::bytes);
            let what = if remedy.ends_with("keys") {
                "keys"
            } else {
                "connections"
            };
            return format!(
                "the plan needs {needed} of memory, and {available} are available: ask for fewer {what}"
            );
        }
        if let (ADDRESSES, [Change::Local(first), ..]) = (what.as_str(), &self.changes[..]) {
            let (missing, first) = (needed - available, first.addr());
            return format!(
                "{missing} of {needed} addresses are not this host's own, the first is {first}: `ip route add local PREFIX dev \
                 lo` with each PREFIX of the sources, or --own-namespace in a network namespace of the run's own"
            );
        }
        format!("{needed} {what} needed, {available} available: {remedy}")
    }
}

/// The sockets of a plan, as input to its resource requirements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sockets<'a> {
    /// The sources of each worker.
    pub(crate) leases: Vec<Vec<&'a Lease>>,
    /// Whether workers have separate descriptor tables.
    pub(crate) own_descriptors: bool,
    /// Number of sockets with a TLS session.
    pub(crate) encrypted: usize,
    /// Their destination addresses.
    pub(crate) targets: Vec<IpAddr>,
    /// Whether this end closes connections while others are opened.
    pub(crate) closes: bool,
    /// Bytes that all workers keep beside their sockets, such as what they know about keys.
    pub(crate) state_bytes: u64,
    /// Bytes of what only its protocol counts, of each worker and of their sum.
    pub(crate) counts_bytes: u64,
}

/// All requirements of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs(pub Vec<Need>);

impl Needs {
    /// The requirements of these sockets on this machine.
    pub(crate) fn of(sockets: &Sockets<'_>) -> Self {
        let mut needs = Self::default();
        // A plan may name any number.
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let of_worker = |leases: &Vec<&Lease>| sum(&mut leases.iter().map(|lease| lease.connections as u64));
        let by_worker: Vec<u64> = sockets.leases.iter().map(of_worker).collect();
        let over_network = sockets
            .leases
            .iter()
            .flatten()
            .filter(|lease| lease.ports != Ports::None);
        let over_network = sum(&mut over_network.map(|lease| lease.connections as u64));
        let (count, workers) = (sum(&mut by_worker.iter().copied()), by_worker.len() as u64);
        let largest = if sockets.own_descriptors {
            by_worker.into_iter().max().unwrap_or(0)
        } else {
            count
        };
        let bytes = [
            (count, USER_BYTES_A_CONNECTION + KERNEL_BYTES_A_CONNECTION),
            (sockets.encrypted as u64, USER_BYTES_A_SESSION),
            (workers, USER_BYTES_A_WORKER),
            (workers + 1, sockets.counts_bytes),
            (1, sockets.state_bytes),
        ];
        let bytes = sum(&mut bytes.into_iter().map(|(count, each)| count.saturating_mul(each)));
        let descriptors = limits::open_descriptors().ok().map(|limit| limit as u64);
        let raise = "raise RLIMIT_NOFILE (ulimit -n) to {}, or use more --workers";
        needs.add(
            "descriptors per table",
            largest.saturating_add(16),
            descriptors,
            raise,
        );
        let (files, raise) = (sysctl("fs/file-max"), "sysctl -w fs.file-max={}");
        needs.add(
            "open files of the system",
            count.saturating_add(1_024),
            files,
            raise,
        );
        let (threads, raise) = (sysctl("kernel/threads-max"), "sysctl -w kernel.threads-max={}");
        needs.add("threads", workers + 16, threads, raise);
        let free = match sockets.state_bytes > bytes / 2 {
            true => "free {} bytes of memory, or use fewer keys",
            false => "free {} bytes of memory, or use fewer connections",
        };
        needs.add(MEMORY, bytes, memory::allowed_bytes().ok(), free);
        needs.addresses(sockets);
        needs.kernel_ports(sockets);
        if sockets.closes {
            needs.resting_ports(over_network);
        }
        needs.conntrack(over_network);
        needs
    }

    /// The requirements of the sources of these workers on this machine.
    pub(crate) fn of_workers(
        workers: &[PlannedWorker],
        target: SocketAddr,
        (state_bytes, counts_bytes): (u64, u64),
    ) -> Self {
        Self::of(&Sockets {
            leases: workers
                .iter()
                .map(|worker| worker.leases.iter().collect())
                .collect(),
            own_descriptors: workers.iter().any(|worker| worker.own_descriptors),
            targets: vec![target.ip()],
            state_bytes,
            counts_bytes,
            ..Sockets::default()
        })
    }

    /// The requirements that are limits of the network namespace, which a run can set in its own namespace.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.lacking().flat_map(|need| need.changes.clone()).collect()
    }

    /// The limits that are too low.
    pub fn lacking(&self) -> impl Iterator<Item = &Need> {
        self.0.iter().filter(|need| need.remedy.is_some())
    }

    /// The memory of this end, if there is less than that: no limit to raise, so the run must not start.
    #[must_use]
    pub fn lacking_memory(&self) -> Option<&Need> {
        self.lacking().find(|need| need.what == MEMORY)
    }

    /// The sources that are not this host's own: no socket can be bound to them, so the run must not start. On loopback
    /// they may be, when the device is up.
    #[must_use]
    pub fn lacking_sources(&self) -> Option<&Need> {
        let is_loopback = |change: &Change| match change {
            Change::Local(prefix) => prefix.addr().is_loopback(),
            Change::Setting { .. } => false,
        };
        let mut lacking = self.lacking();
        lacking.find(|need| need.what == ADDRESSES && !need.changes.iter().any(is_loopback))
    }

    /// Adds a requirement; `{}` in its remedy is replaced by the required amount.
    fn add(&mut self, what: &str, needed: u64, available: Option<u64>, remedy: &str) {
        let lacks = available.is_some_and(|available| available < needed);
        self.0.push(Need {
            what: what.to_owned(),
            needed,
            available,
            remedy: lacks.then(|| remedy.replace("{}", &needed.to_string())),
            changes: Vec::new(),
        });
    }

    /// Adds a requirement that can be met by changing the network namespace.
    fn add_changeable(&mut self, what: &str, needed: u64, available: Option<u64>, changes: Vec<Change>) {
        let commands: Vec<String> = changes.iter().map(Change::to_string).collect();
        let namespace = "or --own-namespace in a network namespace of the run's own";
        self.add(
            what,
            needed,
            available,
            &format!("{}, {namespace}", commands.join("; ")),
        );
        if let Some(need) = self.0.last_mut().filter(|need| need.remedy.is_some()) {
            need.changes = changes;
        }
    }

    /// Source addresses, and servers on loopback: each must be a local address, or replies do not arrive.
    fn addresses(&mut self, sockets: &Sockets<'_>) {
        let sources = sockets.leases.iter().flatten().map(|lease| lease.address);
        let sources = sources.filter(|address| !address.is_unspecified());
        let servers = sockets.targets.iter().copied().filter(IpAddr::is_loopback);
        let sources: BTreeSet<IpAddr> = sources.chain(servers).collect();
        let foreign = bed::foreign(sources.iter().copied().collect());
        let foreign: Vec<IpNet> = foreign.into_iter().map(IpNet::from).collect();
        let (needed, available) = (sources.len() as u64, (sources.len() - foreign.len()) as u64);
        let changes = IpNet::aggregate(&foreign).into_iter().map(Change::Local);
        self.add_changeable(ADDRESSES, needed, Some(available), changes.collect());
    }

    /// Ports of connections that this end closed first stay in TIME_WAIT. Beyond this number the kernel reuses ports at
    /// once, and the server may mistake the new connection for the old one (`tcp_max_tw_buckets` in `ip-sysctl.rst`).
    fn resting_ports(&mut self, needed: u64) {
        let change = setting("net.ipv4.tcp_max_tw_buckets", needed.to_string());
        let available = sysctl("net/ipv4/tcp_max_tw_buckets");
        self.add_changeable("ports in TIME_WAIT", needed, available, vec![change]);
    }

    /// Ports chosen by the kernel: the ephemeral range applies per source address.
    fn kernel_ports(&mut self, sockets: &Sockets<'_>) {
        let mut wanted: BTreeMap<IpAddr, u64> = BTreeMap::new();
        let chosen = |lease: &&&Lease| lease.ports == Ports::Kernel;
        for lease in sockets.leases.iter().flatten().filter(chosen) {
            let wanted = wanted.entry(lease.address).or_default();
            *wanted = wanted.saturating_add(lease.connections as u64);
        }
        let Some(most) = wanted.into_values().max().filter(|most| *most > 0) else {
            return;
        };
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
        let range = range.and_then(|text| {
            let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
            let (first, last) = (ends.next()??, ends.next()??);
            Some(last.saturating_sub(first) + 1)
        });
        let change = setting("net.ipv4.ip_local_port_range", "1024 65535".to_owned());
        let what = "ports chosen by the kernel, per address";
        self.add_changeable(what, most, range, vec![change]);
    }

    /// With connection tracking (netfilter), each connection needs an entry.
    fn conntrack(&mut self, sockets: u64) {
        if let Some(most) = sysctl("net/netfilter/nf_conntrack_max") {
            let remedy = "sysctl -w net.netfilter.nf_conntrack_max={}";
            self.add("tracked connections", sockets, Some(most), remedy);
        }
    }
}

fn setting(name: &str, value: String) -> Change {
    let name = name.to_owned();
    Change::Setting { name, value }
}

fn sysctl(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_generator_knows_about_keys_is_memory_too() {
        let needs = |state_bytes| {
            let sockets = Sockets {
                state_bytes,
                ..Sockets::default()
            };
            Needs::of(&sockets)
        };
        let with_counts = Needs::of(&Sockets {
            leases: vec![Vec::new(); 3],
            counts_bytes: 1_000,
            ..Sockets::default()
        });
        let memory = |needs: &Needs| needs.0.iter().find(|need| need.what == MEMORY).unwrap().needed;
        assert_eq!(memory(&needs(20_000)), memory(&needs(0)) + 20_000);
        let of_workers = memory(&needs(0)) + 3 * USER_BYTES_A_WORKER;
        assert_eq!(
            memory(&with_counts),
            of_workers + 4 * 1_000,
            "of three workers and in all"
        );
        let lacking = needs(u64::MAX);
        let text = lacking.lacking_memory().unwrap().text();
        assert!(text.ends_with("ask for fewer keys"), "{text}");
    }

    #[test]
    fn what_is_too_little_is_told_with_its_remedy() {
        let mut needs = Needs::default();
        needs.add("threads", 100, Some(99), "raise to {}");
        needs.add("files", 100, Some(100), "raise");
        needs.add("unknown", 100, None, "raise");
        let lacking: Vec<_> = needs.lacking().map(|need| need.remedy.as_deref()).collect();
        assert_eq!(lacking, [Some("raise to 100")]);
    }
}
