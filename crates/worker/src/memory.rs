//! The memory nodes of a worker's buffers: requested and actual.
//!
//! Input: a policy of the host crate. Output: the location of the pages, queried from the kernel at any time and from
//! any thread; a [`WorkerMemory`] for the report.

use crate::system::memory::{Mapping, Pages};
use crate::system::placement;
use crate::worker_memory::WorkerMemory;
use corelane_host::memory::{MemoryPolicy, MemoryPolicyError};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The memory that an engine receives into and sends from. It stays mapped as long as this does.
#[derive(Clone, Debug)]
pub struct Buffers {
    mappings: Vec<Arc<Mapping>>,
}

/// The location of this process's pages, read once for the reports of all its workers.
#[derive(Debug)]
pub struct PageLocations(io::Result<String>);

impl PageLocations {
    const FILE: &'static str = "/proc/self/numa_maps";

    /// Reads them from the kernel, which walks every page of the process.
    #[must_use]
    pub fn read() -> Self {
        Self(std::fs::read_to_string(Self::FILE))
    }
}

impl Buffers {
    pub(crate) fn new<'a>(pages: impl IntoIterator<Item = &'a Pages>) -> Self {
        Self {
            mappings: pages
                .into_iter()
                .map(|pages| Arc::clone(pages.mapping()))
                .collect(),
        }
    }

    /// Applies `policy` to the pages; pages already touched are moved if possible.
    ///
    /// # Errors
    /// `InvalidInput` if the policy names a missing node; the kernel's error otherwise: `EPERM` if a container's policy
    /// denies mbind(2), `ENOSYS` on a kernel without NUMA.
    pub fn place(&self, policy: MemoryPolicy) -> io::Result<()> {
        let nodes = checked(policy)?;
        self.mappings
            .iter()
            .try_for_each(|mapping| placement::set_of_range(mapping.addresses(), policy, &nodes))
    }

    /// The number of pages per node. Pages that were never touched are on no node and are not counted.
    ///
    /// # Errors
    /// That of [`PageLocations::read`]: `NotFound` on a kernel without NUMA.
    pub fn pages_by_node<'a>(
        &self,
        locations: &'a PageLocations,
    ) -> Result<BTreeMap<u32, u64>, &'a io::Error> {
        let ranges: Vec<_> = self.mappings.iter().map(|mapping| mapping.addresses()).collect();
        Ok(placement::pages_by_node(locations.0.as_ref()?, &ranges))
    }

    /// The report of a worker with these buffers: its memory policy, that of the buffers if different, and their
    /// location.
    #[must_use]
    pub fn report(
        &self,
        worker: MemoryPolicy,
        buffers: Option<MemoryPolicy>,
        locations: &PageLocations,
    ) -> WorkerMemory {
        let pages = self.pages_by_node(locations);
        WorkerMemory {
            policy: worker.to_string(),
            buffers_policy: buffers.unwrap_or(worker).to_string(),
            page_bytes: placement::page_bytes() as u64,
            unknown: pages
                .as_ref()
                .err()
                .map(|error| format!("{}: {error}", PageLocations::FILE)),
            buffer_pages_by_node: pages.ok(),
        }
    }
}

/// Sets the policy of the calling thread. The kernel's default needs no permission: if setting it is denied, this
/// process cannot have set another.
pub(crate) fn set_of_thread(policy: MemoryPolicy) -> io::Result<()> {
    let nodes = checked(policy)?;
    match placement::set_of_thread(policy, &nodes) {
        Err(_) if policy == MemoryPolicy::FirstTouch => Ok(()),
        result => result,
    }
}

/// The nodes of this machine; an error if the policy names another.
fn checked(policy: MemoryPolicy) -> io::Result<Vec<u32>> {
    let nodes = corelane_host::memory::nodes().map_err(io::Error::other)?;
    let wrong = |error: MemoryPolicyError| io::Error::new(io::ErrorKind::InvalidInput, error);
    policy.check(&nodes).map_err(wrong)?;
    Ok(nodes)
}

/// The fix for a denied call.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "; the container's policy denies it: give CAP_SYS_NICE, or a seccomp profile that allows it"
        }
        Some(libc::ENOSYS) => "; not built into this kernel",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(length: usize) -> Pages {
        let mut pages = Pages::new(length).unwrap();
        pages.bytes_mut(0..length).fill(1);
        pages
    }

    /// Whether the kernel replies; one without NUMA does not.
    fn is_answered(buffers: &Buffers) -> bool {
        buffers
            .pages_by_node(&PageLocations::read())
            .inspect_err(|error| eprintln!("skipped: /proc/self/numa_maps: {error}"))
            .is_ok()
    }

    #[test]
    fn only_touched_pages_are_counted() {
        let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if huge.contains("[always]") {
            eprintln!("skipped: huge pages are always on, and one is touched whole");
            return;
        }
        let page = placement::page_bytes();
        let mut pages = Pages::new(64 * page).unwrap();
        pages.bytes_mut(0..1).fill(1);
        let buffers = Buffers::new([&pages]);
        if !is_answered(&buffers) {
            return;
        }
        let counted: u64 = buffers
            .pages_by_node(&PageLocations::read())
            .unwrap()
            .values()
            .sum();
        assert_eq!(counted, 1);
        assert_eq!(
            Buffers::new([&touched(3 * page)])
                .pages_by_node(&PageLocations::read())
                .unwrap()
                .values()
                .sum::<u64>(),
            3
        );
    }

    #[test]
    fn buffers_can_be_bound_to_a_node_and_report_it() {
        let node = corelane_host::memory::nodes().unwrap()[0];
        let pages = touched(10 * placement::page_bytes());
        let buffers = Buffers::new([&pages]);
        if !is_answered(&buffers) {
            return;
        }
        buffers.place(MemoryPolicy::Node(node)).unwrap();
        let report = buffers.report(
            MemoryPolicy::FirstTouch,
            Some(MemoryPolicy::Node(node)),
            &PageLocations::read(),
        );
        assert_eq!(report.buffer_pages_by_node, Some(BTreeMap::from([(node, 10)])));
        assert_eq!((report.policy.as_str(), report.unknown), ("first-touch", None));
        assert_eq!(report.buffers_policy, format!("node:{node}"));
    }

    #[test]
    fn a_missing_node_is_rejected_without_a_system_call() {
        let pages = touched(1);
        let refused = Buffers::new([&pages]).place(MemoryPolicy::Node(999)).unwrap_err();
        assert!(refused.to_string().contains("node 999"), "{refused}");
    }

    #[test]
    fn buffers_stay_mapped_after_the_engine_is_gone() {
        let pages = touched(placement::page_bytes());
        let buffers = Buffers::new([&pages]);
        if !is_answered(&buffers) {
            return;
        }
        drop(pages);
        assert_eq!(
            buffers
                .pages_by_node(&PageLocations::read())
                .unwrap()
                .values()
                .sum::<u64>(),
            1
        );
    }
}
