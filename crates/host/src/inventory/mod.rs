//! The machine's network configuration: every device with its queues and steering, CPUs, nodes, settings.
//!
//! Input: the kernel's files, netlink, the ethtool ioctls; all of the calling thread's network namespace. Output: an
//! [`Inventory`], which can be saved and read back, so that flows of another machine can be explained. Taking one never
//! fails: a fact that cannot be read has a reason instead of a value. Nothing is changed.

mod check;
mod device;
mod interrupts;
mod queues;
mod software_rss;
mod steering;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use check::check;
pub use device::Device;
pub use queues::{ReceiveQueue, TransmitQueue};
pub use software_rss::SoftwareRss;
pub use steering::{NoSteering, mismatch, rule, steering};

pub use crate::ethtool::ioctl::Driver;
pub use crate::fact::Fact;
pub use crate::netlink::links::{Bond, Link, Route, Xdp};

use crate::conditions::{self, Snapshot};
use crate::cpus::{self, Topology};
use crate::mounts;
use crate::netlink::Generic;
use crate::netlink::links::{self, Links};
use crate::tree::{Tree, setting_path};
use interrupts::Interrupts;
use queues::Sources;

/// The network configuration of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Name and version of the document.
    pub schema: String,
    /// The machine and its conditions, those of its devices included.
    pub machine: Snapshot,
    /// CPUs, nodes and caches.
    pub topology: Fact<Topology>,
    /// The settings that affect frames, by dotted name.
    pub settings: BTreeMap<String, Fact<String>>,
    /// Whether irqbalance is running.
    pub irqbalance: Fact<bool>,
    /// Every device, by name.
    pub devices: Vec<Device>,
    /// Why there are no devices, if their list could not be read.
    pub devices_unknown: Option<String>,
    /// The routes.
    pub routes: Vec<Route>,
    /// Routes that were not kept.
    pub routes_left_off: usize,
}

/// An inventory has no device of the given name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NoDevice(String);

impl Inventory {
    /// Name and version of the document.
    pub const SCHEMA: &'static str = "corelane/host/1";

    /// The device with a given name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The device of this name.
    ///
    /// # Errors
    ///
    /// [`NoDevice`], which lists the existing devices.
    pub fn require(&self, name: &str) -> Result<&Device, NoDevice> {
        let names = self.devices.iter().map(|device| device.name.as_str());
        let there_are = || format!("there are {}", names.collect::<Vec<_>>().join(", "));
        self.device(name).ok_or_else(|| {
            let known = self.devices_unknown.clone().unwrap_or_else(there_are);
            NoDevice(format!("there is no device {name}: {known}"))
        })
    }

    /// The device with a given number.
    #[must_use]
    pub fn device_of_index(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.link.index == index)
    }

    /// The route to an address: the longest prefix, then the lowest metric. Policy routing rules are ignored.
    #[must_use]
    pub fn route(&self, to: IpAddr) -> Option<&Route> {
        best(&self.routes, to)
    }

    /// The online CPUs; empty if unknown.
    pub(crate) fn cpus_online(&self) -> &[u32] {
        self.machine.cpus_online.as_deref().unwrap_or_default()
    }

    /// A setting by its dotted name, if it could be read.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.value.as_deref()
    }

    /// Whether an address is local to this machine.
    #[must_use]
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.route(address).is_some_and(|route| route.local)
    }
}

fn best(routes: &[Route], to: IpAddr) -> Option<&Route> {
    let fitting = routes.iter().filter(|route| route.to.contains(&to));
    fitting.max_by_key(|route| (route.to.prefix_len(), std::cmp::Reverse(route.priority)))
}

/// The devices by which packets to these addresses leave, in the calling thread's network namespace: loopback to addresses
/// of this machine. Policy routing rules are ignored; an address that no route leads to has none.
#[must_use]
pub fn devices_towards(addresses: impl Iterator<Item = IpAddr>) -> Vec<String> {
    let links = links::links().unwrap_or_default();
    let device = |to: IpAddr| {
        let route = best(&links.routes, to.to_canonical())?;
        let mut devices = links.devices.iter();
        let (name, _) = devices.find(|(_, link)| match route.local {
            true => link.kind.as_deref() == Some("loopback"),
            false => link.index == route.device,
        })?;
        Some(name.clone())
    };
    let devices: BTreeSet<String> = addresses.filter_map(device).collect();
    devices.into_iter().collect()
}

/// Takes the inventory of this machine, of all devices in the calling thread's network namespace.
#[must_use]
pub fn inventory() -> Inventory {
    let tree = Tree::machine();
    match links::links() {
        // Without the privilege to mount, the existing mount stays; the reader detects that.
        Ok(links) if !shows(&tree, &links.devices) => {
            mounts::with_own("sysfs", "/sys", true, |_| inventory_in(&tree))
        }
        _ => inventory_in(&tree),
    }
}

fn inventory_in(tree: &Tree) -> Inventory {
    let topology = Fact::of(cpus::topology_in(tree), "/sys/devices/system");
    let (links, devices_unknown) = match links::links() {
        Ok(links) => (links, None),
        Err(error) => (Links::default(), Some(error.to_string())),
    };
    let mut sources = Sources {
        tree,
        interrupts: &Interrupts::read(tree),
        topology: topology.value.as_ref(),
        sysfs: shows(tree, &links.devices),
        netdev: &mut Generic::open("netdev"),
    };
    let (mut devices, mut addresses) = (Vec::new(), links.addresses);
    for (name, link) in links.devices {
        let own = addresses.remove(&link.index).unwrap_or_default();
        devices.push(device::device(&mut sources, &name, link, own));
    }
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    Inventory {
        schema: Inventory::SCHEMA.to_owned(),
        machine: conditions::snapshot_in(tree, &names),
        topology,
        settings: settings(tree),
        irqbalance: irqbalance(tree),
        devices,
        devices_unknown,
        routes: links.routes,
        routes_left_off: links.routes_left_off,
    }
}

/// Whether `/sys` shows these devices: it shows those of the namespace that it was mounted in.
fn shows(tree: &Tree, devices: &BTreeMap<String, Link>) -> bool {
    let Ok(names) = tree.names("/sys/class/net") else {
        return false;
    };
    devices.iter().all(|(name, link)| {
        let index = tree.value::<u32>(&format!("/sys/class/net/{name}/ifindex"), "a number");
        names.contains(name) && index.is_ok_and(|index| index == link.index)
    })
}

/// Settings that control where frames go, how many are queued, and how the rest is handled.
const SETTINGS: [&str; 31] = [
    "kernel.numa_balancing",
    "net.core.bpf_jit_enable",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.flow_limit_cpu_bitmap",
    "net.core.flow_limit_table_len",
    "net.core.gro_normal_batch",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.netdev_rss_key",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_default_mask",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_migrate_req",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_early_demux",
    "net.ipv4.udp_mem",
];

fn settings(tree: &Tree) -> BTreeMap<String, Fact<String>> {
    let fact = |name: &str| {
        let path = setting_path(name);
        let value = tree.text(&path);
        let value = value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "));
        (name.to_owned(), Fact::of(value, path))
    };
    SETTINGS.into_iter().map(fact).collect()
}

/// Searches the visible processes for irqbalance; in a container that may not be all.
fn irqbalance(tree: &Tree) -> Fact<bool> {
    let is_it = |process: u32| {
        let name = tree.text(&format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name == "irqbalance")
    };
    let processes = tree.numbers("/proc", "");
    Fact::of(
        processes.map(|processes| processes.into_iter().any(is_it)),
        "/proc/*/comm",
    )
}
