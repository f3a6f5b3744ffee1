//! The conditions of a measurement: which properties of this machine spoil a result, explain it, or are fine.
//!
//! Input: the kernel's files, the names of the devices that frames will cross. Output: a [`Snapshot`] whose conditions
//! are sorted worst first, each with its source, why it matters and how to fix it. Taking a snapshot never fails: a
//! value that cannot be read is `None` with a reason. Nothing is changed.
//!
//! Take a snapshot outside the test bed, where the machine's settings can be read, and add [`of_devices`] from within
//! each side for its device.

mod condition;
mod device;
mod interval;
mod kernel;
mod limits;
mod load;
mod processor;
mod sensors;
mod virtualisation;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub(crate) use condition::About;
pub use condition::{Condition, Severity};
pub use interval::during;
pub use sensors::ThermalCounters;

use crate::HostError;
use crate::cpus::{self, Topology};
use crate::tree::{MEMINFO, Tree};

/// The machine and its conditions at one moment. Fields missing from a parsed document are unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Kernel release, such as `6.18.44`.
    pub kernel: Option<String>,
    /// The target architecture of this program, such as `x86_64`.
    pub architecture: String,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// The CPUs online, ascending.
    pub cpus_online: Option<Vec<u32>>,
    /// The CPUs the calling thread may use, ascending.
    pub cpus_allowed: Option<Vec<u32>>,
    /// The CPU quota of the cgroup, in CPUs; `None` also if there is no limit.
    pub cgroup_quota_cpus: Option<f64>,
    /// NUMA nodes with CPUs online.
    pub nodes: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The hypervisor this machine runs under, or `none`.
    pub virtualisation: Option<String>,
    /// The reasons of the unknown fields above, by field name.
    pub unknown: BTreeMap<String, String>,
    /// The conditions, worst first.
    pub conditions: Vec<Condition>,
}

impl Snapshot {
    /// Adds conditions, such as those [`of_devices`] found in another namespace or those [`during`] a trial, and sorts
    /// worst first. A condition of the same name is replaced.
    pub fn add(&mut self, conditions: Vec<Condition>) {
        self.conditions
            .retain(|standing| conditions.iter().all(|new| new.name != standing.name));
        self.conditions.extend(conditions);
        self.conditions.sort_by_key(|condition| condition.severity);
    }
}

/// Takes a snapshot of the machine, with the conditions of `devices` in the calling thread's network namespace.
pub fn snapshot(devices: &[String]) -> Snapshot {
    snapshot_in(&Tree::machine(), devices)
}

/// The conditions of devices in the calling thread's network namespace: flow control, offloads, RPS, captures.
pub fn of_devices(devices: &[String]) -> Vec<Condition> {
    device::conditions(&Tree::machine(), devices)
}

pub(crate) fn snapshot_in(tree: &Tree, devices: &[String]) -> Snapshot {
    let mut unknown = BTreeMap::new();
    let topology = known(&mut unknown, "cpus_online", cpus::topology_in(tree));
    let allowed = known(&mut unknown, "cpus_allowed", cpus::allowed_in(tree));
    let nodes = topology.as_ref().map(|topology| {
        let nodes = topology.cpus.iter().filter_map(|cpu| cpu.node);
        nodes.collect::<BTreeSet<_>>().len() as u32
    });
    let mut snapshot = Snapshot {
        kernel: known(&mut unknown, "kernel", kernel::release(tree)),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: known(&mut unknown, "cpu_model", processor::model(tree)),
        cpus_online: topology.as_ref().map(Topology::online),
        cpus_allowed: allowed.as_ref().map(|allowed| allowed.cpus.clone()),
        cgroup_quota_cpus: allowed.as_ref().and_then(|allowed| allowed.cgroup_quota_cpus),
        nodes,
        memory_bytes: known(&mut unknown, "memory_bytes", tree.kibibytes(MEMINFO, "MemTotal")),
        virtualisation: known(&mut unknown, "virtualisation", virtualisation::detect(tree)),
        unknown,
        conditions: Vec::new(),
    };
    let mut all = processor::conditions(tree);
    all.extend(sensors::conditions(tree));
    all.extend(load::conditions(tree));
    all.push(kernel::debug_options(tree, snapshot.kernel.as_deref()));
    all.push(virtualisation::condition(snapshot.virtualisation.as_deref()));
    if let (Some(topology), Some(allowed)) = (topology, allowed) {
        all.extend(limits::of_process(tree, &topology, &allowed));
    }
    all.extend(limits::of_network(tree));
    snapshot.add(all);
    snapshot.add(device::conditions(tree, devices));
    snapshot
}

/// The value, or `None` after adding the reason to `unknown`.
fn known<T>(unknown: &mut BTreeMap<String, String>, name: &str, fact: Result<T, HostError>) -> Option<T> {
    fact.map_err(|error| unknown.insert(name.to_owned(), error.to_string()))
        .ok()
}

#[cfg(test)]
mod tests;
