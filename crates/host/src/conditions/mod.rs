//! The conditions of a measurement: which properties of this machine spoil a result, explain it, or are fine.
//!
//! Input: the kernel's files, the names of the devices that frames will cross. Output: a [`Snapshot`] whose conditions
//! are sorted worst first, each with its source, why it matters and how to fix it. Taking a snapshot never fails: a
//! value that cannot be read is `None` with a reason. Nothing is changed.
//!
//! Take a snapshot outside the test bed, where the machine's settings can be read, and add [`of_devices`] from within
//! each side for its device.

mod device;
mod interval;
mod kernel;
mod limits;
mod load;
mod processor;
mod sensors;
mod virtualisation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};

pub use interval::during;
pub use sensors::ThermalCounters;

use crate::HostError;
use crate::cpus::{self, Topology};
use crate::tree::{MEMINFO, Tree};

/// The effect of a condition on a result, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The result is invalid.
    Spoils,
    /// The result is valid, but comparable only with results under the same condition.
    Explains,
    /// No effect.
    Fine,
}

impl Severity {
    /// This severity if `so`, otherwise fine.
    fn when(self, so: bool) -> Self {
        if so { self } else { Severity::Fine }
    }

    /// The severity of an amount, given the bounds from which it spoils or explains.
    fn from_bounds(amount: f64, spoils: f64, explains: f64) -> Self {
        match amount {
            amount if amount >= spoils => Severity::Spoils,
            amount => Severity::Explains.when(amount >= explains),
        }
    }
}

/// One condition of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The name, such as `turbo` or `flow control of eth0`. Stable between versions.
    pub name: String,
    /// The value; `None` if it could not be read.
    pub value: Option<String>,
    /// The effect on a result. An unknown value explains, because it cannot be ruled out; unknown temperature, fans and
    /// power do not, because throttling shows their effect.
    pub severity: Severity,
    /// Why it matters.
    #[serde(default)]
    pub why: String,
    /// The fix, if there is one.
    #[serde(rename = "mend")]
    pub fix: Option<String>,
    /// The file or interface it was read from.
    #[serde(default)]
    pub source: String,
    /// Why the value is unknown.
    pub unknown_because: Option<String>,
}

/// The parts of a condition that do not depend on its value.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) why: &'a str,
    /// The fix if the condition affects a result; empty if there is none.
    pub(crate) fix: &'a str,
}

impl About<'_> {
    /// The condition for a value and its severity, or for the reason why it is unknown.
    pub(crate) fn found(self, found: Result<(impl Display, Severity), impl Display>) -> Condition {
        let (value, severity, unknown_because) = match found {
            Ok((value, severity)) => (Some(value.to_string()), severity, None),
            Err(because) => (None, Severity::Explains, Some(because.to_string())),
        };
        let fixable = value.is_some() && severity != Severity::Fine && !self.fix.is_empty();
        Condition {
            name: self.name.to_owned(),
            value,
            severity,
            why: self.why.to_owned(),
            fix: fixable.then(|| self.fix.to_owned()),
            source: self.source.to_owned(),
            unknown_because,
        }
    }
}

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
        all.extend(limits::of_process(&topology, &allowed));
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
