//! The conditions of a measurement: what about this machine spoils a result, what explains it, what is fine.
//!
//! What enters: the kernel's files, the names of the devices that frames will cross. What leaves: a [`Snapshot`] whose
//! conditions stand worst first, each with its source, why it matters and what would mend it. Taking one never fails:
//! what cannot be read is `None` with a reason. Nothing is changed.
//!
//! Take a snapshot outside the test bed, where the machine's settings can be read, and add [`of_devices`] from within
//! each side for its device.

mod device;
mod interval;
mod kernel;
mod limits;
mod load;
mod processor;
mod virtualisation;

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

pub use interval::during;

use crate::cpus::{self, Allowed, Topology};
use crate::tree::Tree;

/// What a condition does to a result, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A result taken under it is not one.
    Spoils,
    /// A result is sound, and comparable only with results under the same.
    Explains,
    /// It does nothing to a result.
    Fine,
}

/// One condition of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is, such as `turbo` or `flow control of eth0`. Stable between versions.
    pub name: String,
    /// What it stands at; `None` where that could not be read.
    pub value: Option<String>,
    /// What it does to a result. The unknown explains: it cannot be ruled out.
    pub severity: Severity,
    /// Why it matters.
    #[serde(default)]
    pub why: String,
    /// What would mend it, where something can.
    pub mend: Option<String>,
    /// The file or interface it was read from.
    #[serde(default)]
    pub source: String,
    /// Why the value is unknown.
    pub unknown_because: Option<String>,
}

impl Condition {
    pub(crate) fn known(
        name: impl Into<String>,
        value: impl Display,
        source: impl Into<String>,
        why: &str,
    ) -> Self {
        Self {
            name: name.into(),
            value: Some(value.to_string()),
            severity: Severity::Fine,
            why: why.to_owned(),
            mend: None,
            source: source.into(),
            unknown_because: None,
        }
    }

    pub(crate) fn unknown(
        name: impl Into<String>,
        because: impl Display,
        source: impl Into<String>,
        why: &str,
    ) -> Self {
        Self {
            name: name.into(),
            value: None,
            severity: Severity::Explains,
            why: why.to_owned(),
            mend: None,
            source: source.into(),
            unknown_because: Some(because.to_string()),
        }
    }

    /// The same, rated, with what would mend it.
    pub(crate) fn rated(self, severity: Severity, mend: impl Into<String>) -> Self {
        Self {
            severity,
            mend: Some(mend.into()),
            ..self
        }
    }

    /// The same, rated, where nothing here can mend it.
    pub(crate) fn lasting(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

/// The machine and its conditions at one moment; of a document that lacks some of it, nothing is known of that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Kernel release, such as `6.18.44`.
    pub kernel: Option<String>,
    /// The instruction set this program was built for, such as `x86_64`.
    pub architecture: String,
    /// The processor's own name.
    pub cpu_model: Option<String>,
    /// The CPUs online, ascending.
    pub cpus_online: Option<Vec<u32>>,
    /// The CPUs the calling thread may use, ascending.
    pub cpus_allowed: Option<Vec<u32>>,
    /// How many CPUs' worth of time the cgroup grants; `None` for no limit, too.
    pub cgroup_quota_cpus: Option<f64>,
    /// NUMA nodes with CPUs online.
    pub nodes: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The hypervisor this machine runs under, or `none`.
    pub virtualisation: Option<String>,
    /// For each of the above that is unknown, why.
    pub unknown: BTreeMap<String, String>,
    /// The conditions, worst first.
    pub conditions: Vec<Condition>,
}

impl Snapshot {
    /// Adds conditions, such as those [`of_devices`] found in another namespace or those [`during`] a trial, and keeps the
    /// worst first. One that is there already under its name is replaced.
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
    let mut keep = Keep(&mut unknown);
    let topology = keep.known("cpus_online", cpus::topology_in(tree));
    let allowed = keep.known("cpus_allowed", cpus::allowed_in(tree));
    let kernel_release = keep.known("kernel", kernel::release(tree));
    let virtualisation = keep.known("virtualisation", virtualisation::detect(tree));
    let mut snapshot = Snapshot {
        kernel: kernel_release.clone(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: keep.known("cpu_model", processor::model(tree)),
        cpus_online: topology.as_ref().map(Topology::online),
        cpus_allowed: allowed.as_ref().map(|allowed| allowed.cpus.clone()),
        cgroup_quota_cpus: allowed.as_ref().and_then(|allowed| allowed.cgroup_quota_cpus),
        nodes: topology.as_ref().map(nodes),
        memory_bytes: keep.known("memory_bytes", kernel::memory_bytes(tree)),
        virtualisation: virtualisation.clone(),
        unknown: BTreeMap::new(),
        conditions: Vec::new(),
    };
    snapshot.unknown = unknown;
    snapshot.add(conditions(
        tree,
        topology.as_ref(),
        allowed.as_ref(),
        kernel_release.as_deref(),
        virtualisation.as_deref(),
    ));
    snapshot.add(device::conditions(tree, devices));
    snapshot
}

fn conditions(
    tree: &Tree,
    topology: Option<&Topology>,
    allowed: Option<&Allowed>,
    kernel_release: Option<&str>,
    virtualisation: Option<&str>,
) -> Vec<Condition> {
    let mut all = processor::conditions(tree);
    all.extend(load::conditions(tree));
    all.push(kernel::debug_options(tree, kernel_release));
    all.push(virtualisation::condition(virtualisation));
    if let (Some(topology), Some(allowed)) = (topology, allowed) {
        all.extend(limits::of_process(topology, allowed));
    }
    all.extend(limits::of_network(tree));
    all
}

fn nodes(topology: &Topology) -> u32 {
    let mut nodes: Vec<u32> = topology.cpus.iter().filter_map(|cpu| cpu.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    u32::try_from(nodes.len()).unwrap_or(u32::MAX)
}

/// Turns errors into reasons.
struct Keep<'a>(&'a mut BTreeMap<String, String>);

impl Keep<'_> {
    fn known<T>(&mut self, name: &str, fact: Result<T, crate::HostError>) -> Option<T> {
        fact.map_err(|error| self.0.insert(name.to_owned(), error.to_string()))
            .ok()
    }
}

#[cfg(test)]
mod tests;
