//! What this machine is to frames: every device with its queues and how it steers, CPUs, nodes, settings.
//!
//! What enters: the kernel's files, netlink, the older ethtool calls; all of the calling thread's network namespace. What
//! leaves: an [`Inventory`], which can be saved and read back, so that another machine is explained from its own. Taking one
//! never fails: a fact that cannot be read is there without a value, with the reason. Nothing is changed.

mod check;
mod device;
mod interrupts;
mod links;
mod queues;
mod steering;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use check::check;
pub use device::Device;
pub use links::{Bond, Link, Route, Xdp};
pub use queues::{ReceiveQueue, TransmitQueue};
pub use steering::{DeviceRule, NoSteering, mismatch, rule, steering};

pub use crate::ethtool::ioctl::Driver;
pub use crate::fact::Fact;

use crate::conditions::{self, Snapshot};
use crate::cpus::{self, Topology};
use crate::sysfs;
use crate::tree::Tree;
use interrupts::Interrupts;
use queues::{Netdev, Sources};

/// A machine, as far as frames are concerned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Name and version of the document.
    pub schema: String,
    /// The machine and its conditions, those of its devices included.
    pub machine: Snapshot,
    /// CPUs, nodes and caches.
    pub topology: Fact<Topology>,
    /// The settings that matter to frames, by dotted name.
    pub settings: BTreeMap<String, Fact<String>>,
    /// Whether a program that moves interrupts about is running.
    pub irqbalance: Fact<bool>,
    /// Every device, by name.
    pub devices: Vec<Device>,
    /// Why there are no devices, where their list could not be read.
    pub devices_unknown: Option<String>,
    /// Which device packets leave by.
    pub routes: Vec<Route>,
    /// Routes that were not kept.
    pub routes_left_off: usize,
}

impl Inventory {
    /// Name and version of the document.
    pub const SCHEMA: &'static str = "corelane/host/1";

    /// The device of a name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The device of a number.
    #[must_use]
    pub fn device_of_index(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.link.index == index)
    }

    /// The route that packets to an address take: of the longest prefixes the one that goes first. Rules of policy routing
    /// are not looked at.
    #[must_use]
    pub fn route(&self, to: IpAddr) -> Option<&Route> {
        let fitting = self.routes.iter().filter(|route| route.to.contains(&to));
        fitting.max_by_key(|route| (route.to.prefix_len(), std::cmp::Reverse(route.priority)))
    }

    /// Whether an address is this machine's own.
    #[must_use]
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.route(address).is_some_and(|route| route.local)
    }
}

/// Takes the inventory of this machine, of all devices in the calling thread's network namespace.
#[must_use]
pub fn inventory() -> Inventory {
    let tree = Tree::machine();
    match links::links() {
        Ok(links) if !shows(&tree, &links.devices) => sysfs::own(|| inventory_in(&tree)),
        _ => inventory_in(&tree),
    }
}

fn inventory_in(tree: &Tree) -> Inventory {
    let topology = match cpus::topology_in(tree) {
        Ok(topology) => Fact::known(topology, "/sys/devices/system"),
        Err(error) => Fact::unknown(error, "/sys/devices/system"),
    };
    let (links, devices_unknown) = match links::links() {
        Ok(links) => (Some(links), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let interrupts = Interrupts::read(tree);
    let mut netdev = Netdev::open();
    let mut devices = Vec::new();
    let (mut routes, mut routes_left_off) = (Vec::new(), 0);
    if let Some(mut links) = links {
        let mut sources = Sources {
            tree,
            interrupts: &interrupts,
            topology: topology.value.as_ref(),
            sysfs: shows(tree, &links.devices),
            netdev: &mut netdev,
        };
        for (name, link) in links.devices {
            let addresses = links.addresses.remove(&link.index).unwrap_or_default();
            devices.push(device::device(&mut sources, &name, link, addresses));
        }
        (routes, routes_left_off) = (links.routes, links.routes_left_off);
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
        routes,
        routes_left_off,
    }
}

/// Whether `/sys` shows these devices: it shows those of the namespace that it was mounted in.
fn shows(tree: &Tree, devices: &BTreeMap<String, Link>) -> bool {
    let Ok(names) = tree.names("/sys/class/net") else {
        return false;
    };
    devices.iter().all(|(name, link)| {
        names.contains(name)
            && tree
                .value::<u32>(&format!("/sys/class/net/{name}/ifindex"), "a number")
                .is_ok_and(|index| index == link.index)
    })
}

/// Settings that decide where frames go, how many wait, and what becomes of the rest.
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
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        match tree.text(&path) {
            Ok(value) => Fact::known(value.split_whitespace().collect::<Vec<_>>().join(" "), path),
            Err(error) => Fact::unknown(error, path),
        }
    };
    SETTINGS
        .into_iter()
        .map(|name| (name.to_owned(), fact(name)))
        .collect()
}

/// Looks for the program among the processes that can be seen: in a container that may not be all.
fn irqbalance(tree: &Tree) -> Fact<bool> {
    const SOURCE: &str = "/proc/*/comm";
    match tree.names("/proc") {
        Err(error) => Fact::unknown(error, SOURCE),
        Ok(names) => {
            let numbers = names
                .iter()
                .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            let mut comms = numbers.filter_map(|number| tree.text(&format!("/proc/{number}/comm")).ok());
            Fact::known(comms.any(|comm| comm == "irqbalance"), SOURCE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    #[test]
    fn an_inventory_survives_json() {
        let inventory = inventory();
        let json = serde_json::to_string(&inventory).unwrap();
        assert_eq!(serde_json::from_str::<Inventory>(&json).unwrap(), inventory);
    }

    #[test]
    fn loopback_is_there_without_rss_and_says_so() {
        let inventory = inventory();
        let loopback = inventory.device("lo").unwrap();
        assert!(loopback.rss.absent_because.is_some(), "{:?}", loopback.rss);
        assert!(!loopback.has_hardware());
        assert_eq!(loopback.receive_queues.len(), 1);
        assert!(inventory.is_local("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_machine_that_shows_no_files_still_names_its_devices() {
        let nothing = Recorded::new([("/proc/empty", "")]);
        let inventory = inventory_in(&nothing.tree());
        let loopback = inventory.device("lo").unwrap();
        let unknown: BTreeMap<_, _> = loopback.unknown().into_iter().collect();
        assert!(unknown["rps"].contains("namespace"), "{unknown:?}");
        assert!(inventory.topology.unknown_because.is_some());
        assert!(inventory.settings["net.core.rmem_max"].unknown_because.is_some());
    }

    #[test]
    fn the_longest_prefix_and_then_the_lowest_priority_choose_the_route() {
        let route = |to: &str, device, priority| Route {
            to: to.parse().unwrap(),
            local: false,
            device,
            priority,
        };
        let mut inventory = inventory_in(&Recorded::new([("/proc/empty", "")]).tree());
        inventory.routes = vec![
            route("0.0.0.0/0", 1, 0),
            route("192.0.2.0/24", 2, 20),
            route("192.0.2.0/24", 3, 10),
            route("::/0", 4, 0),
        ];
        let device = |to: &str| inventory.route(to.parse().unwrap()).map(|route| route.device);
        assert_eq!(device("192.0.2.9"), Some(3));
        assert_eq!(device("198.51.100.9"), Some(1));
        assert_eq!(device("2001:db8::1"), Some(4));
    }
}
