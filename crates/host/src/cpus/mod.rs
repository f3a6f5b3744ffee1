//! The CPUs of this machine: topology (cores, packages, nodes, caches), the CPUs that this process may use, and the
//! placement of workers.
//!
//! Input: `/sys/devices/system/{cpu,node}`, `/proc/thread-self/status`, the cgroup of the process.
//! Output: [`Topology`], [`Allowed`], and a [`placement`] of one CPU per worker.

mod allowed;
mod placement;
mod quota;
mod topology;

pub mod list;

pub(crate) use allowed::allowed_in;
pub(crate) use quota::{quota, tightest};

use std::collections::BTreeSet;
use std::io::ErrorKind;

use corelane_measure::words::read_word;

pub use allowed::{Allowed, allowed};
pub use placement::{PlacementError, PlacementOptions, placement};
pub use topology::{CacheInfo, CacheKind, CpuInfo, Topology};

use crate::HostError;
use crate::tree::Tree;

const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const NODE_DIRECTORY: &str = "/sys/devices/system/node";

/// Reads the CPUs and caches of this machine.
///
/// The layout is documented in the kernel's `Documentation/ABI/stable/sysfs-devices-system-cpu` and
/// `Documentation/admin-guide/cputopology.rst`.
///
/// # Errors
///
/// [`HostError::Failed`] if a file is not as documented. If `/sys` is not mounted, every allowed CPU counts as a core.
pub fn topology() -> Result<Topology, HostError> {
    match topology_in(&Tree::machine()) {
        Err(HostError::Read { path, cause }) if cause.kind() == ErrorKind::NotFound && path == ONLINE => {
            allowed().map(without_sys)
        }
        topology => topology,
    }
}

/// What is known of these CPUs without `/sys`.
fn without_sys(allowed: Allowed) -> Topology {
    let cpu = |id| CpuInfo {
        id,
        core: Some(id),
        package: Some(0),
        node: Some(0),
        siblings: vec![id],
        online: true,
    };
    Topology {
        cpus: allowed.cpus.into_iter().map(cpu).collect(),
        caches: Vec::new(),
    }
}

pub(crate) fn topology_in(tree: &Tree) -> Result<Topology, HostError> {
    let online = tree.list(ONLINE)?;
    let present = where_shown(tree, &format!("{CPU_DIRECTORY}/present"))?;
    let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
    for node in where_shown(tree, &format!("{NODE_DIRECTORY}/online"))?.unwrap_or_default() {
        nodes.push((node, tree.list(&format!("{NODE_DIRECTORY}/node{node}/cpulist"))?));
    }
    let cpu = |id| match online.contains(&id) {
        true => online_cpu(tree, id, &nodes),
        false => Ok(CpuInfo {
            id,
            siblings: vec![id],
            ..CpuInfo::default()
        }),
    };
    let present = present.unwrap_or_else(|| online.clone());
    Ok(Topology {
        cpus: present.into_iter().map(cpu).collect::<Result<_, _>>()?,
        caches: caches(tree, &online)?,
    })
}

/// A list that not every kernel shows.
fn where_shown(tree: &Tree, path: &str) -> Result<Option<Vec<u32>>, HostError> {
    match tree.list(path) {
        Err(HostError::Read { .. }) => Ok(None),
        list => list.map(Some),
    }
}

fn online_cpu(tree: &Tree, id: u32, nodes: &[(u32, Vec<u32>)]) -> Result<CpuInfo, HostError> {
    let directory = format!("{CPU_DIRECTORY}/cpu{id}/topology");
    // Some architectures and hypervisors report -1 for "not known"; such a CPU is treated as a package of one.
    let number = |file: &str| -> Result<u32, HostError> {
        let value: i64 = tree.value(&format!("{directory}/{file}"), "a number")?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let own = nodes.iter().find(|(_, cpus)| cpus.contains(&id));
    Ok(CpuInfo {
        id,
        core: Some(number("core_id")?),
        package: Some(number("physical_package_id")?),
        // A kernel without NUMA has one node.
        node: own.map(|(node, _)| *node).or(nodes.is_empty().then_some(0)),
        siblings: tree.list(&format!("{directory}/thread_siblings_list"))?,
        online: true,
    })
}

/// The caches of `cpus`. The directory of every CPU that shares a cache lists it; it is kept once.
fn caches(tree: &Tree, cpus: &[u32]) -> Result<Vec<CacheInfo>, HostError> {
    let mut seen = BTreeSet::new();
    let mut caches = Vec::new();
    for cpu in cpus {
        let directory = format!("{CPU_DIRECTORY}/cpu{cpu}/cache");
        // Absent in some virtual machines; the list is then empty.
        let Ok(names) = tree.names(&directory) else {
            continue;
        };
        for name in names.iter().filter(|name| name.starts_with("index")) {
            let cache = cache(tree, &format!("{directory}/{name}"))?;
            if seen.insert((cache.level, cache.kind, cache.shared_by.clone())) {
                caches.push(cache);
            }
        }
    }
    caches.sort_by(|a, b| (a.level, a.kind, &a.shared_by).cmp(&(b.level, b.kind, &b.shared_by)));
    Ok(caches)
}

fn cache(tree: &Tree, directory: &str) -> Result<CacheInfo, HostError> {
    let kind_path = format!("{directory}/type");
    let kind = tree.text(&kind_path)?;
    let malformed = |_| HostError::format(kind_path, "Data, Instruction or Unified", &kind);
    let kind = read_word(&kind.to_ascii_lowercase()).map_err(malformed)?;
    let number = |file: &str| tree.value(&format!("{directory}/{file}"), "a number").ok();
    let size = tree.text(&format!("{directory}/size")).ok();
    Ok(CacheInfo {
        level: tree.value(&format!("{directory}/level"), "a cache level")?,
        kind,
        bytes: size.and_then(|text| kibibytes(&text)),
        line_bytes: number("coherency_line_size"),
        ways: number("ways_of_associativity").filter(|ways| *ways > 0),
        sets: number("number_of_sets").filter(|sets| *sets > 0),
        shared_by: tree.list(&format!("{directory}/shared_cpu_list"))?,
    })
}

/// The kernel writes cache sizes as `48K` (`drivers/base/cacheinfo.c`, `size_show`).
fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests;
