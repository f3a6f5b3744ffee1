//! The location of a worker's memory: the policy, and the pages as reported by the kernel.

use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker's memory by node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerMemory {
    /// The policy of the whole worker: `first-touch`, `local`, `interleave` or `node:N`.
    pub policy: String,
    /// The policy of the buffers for received and sent datagrams.
    pub buffers_policy: String,
    /// The page size, in bytes.
    pub page_bytes: u64,
    /// Touched pages of those buffers, per node; `None` if the kernel does not report it.
    pub buffer_pages_by_node: Option<BTreeMap<u32, u64>>,
    /// Why it is unknown.
    pub unknown: Option<String>,
}

impl WorkerMemory {
    /// The pages by node, such as `node 0: 12, node 1: 3`; a dash if empty or unknown.
    #[must_use]
    pub fn words(&self) -> String {
        let nodes = self.buffer_pages_by_node.iter().flatten();
        let words: Vec<String> = nodes
            .map(|(node, pages)| format!("node {node}: {pages}"))
            .collect();
        if words.is_empty() {
            return "-".to_owned();
        }
        words.join(", ")
    }

    /// The policy of the worker, and that of its buffers if different.
    #[must_use]
    pub fn policies(&self) -> String {
        if self.buffers_policy == self.policy {
            return self.policy.clone();
        }
        format!("{}, buffers {}", self.policy, self.buffers_policy)
    }
}

/// The memory of several workers in one sentence: their policies, and the share of their buffers' pages on each node;
/// `None` if unknown for all.
#[must_use]
pub fn sentence<'a>(workers: impl Iterator<Item = &'a WorkerMemory>) -> Option<String> {
    let workers: Vec<&WorkerMemory> = workers.collect();
    let mut policies: Vec<String> = workers.iter().map(|memory| memory.policies()).collect();
    policies.dedup();
    let mut by_node: BTreeMap<u32, u64> = BTreeMap::new();
    for (node, pages) in workers
        .iter()
        .filter_map(|memory| memory.buffer_pages_by_node.as_ref())
        .flatten()
    {
        *by_node.entry(*node).or_default() += pages;
    }
    let all: u64 = by_node.values().sum();
    let shares = by_node.iter().map(|(node, pages)| {
        format!(
            "{} on node {node}",
            quantity::percent(*pages as f64 / all.max(1) as f64)
        )
    });
    let shares: Vec<String> = shares.collect();
    let unknown = || workers.iter().find_map(|memory| memory.unknown.clone());
    let pages = match shares.is_empty() {
        true => unknown().unwrap_or_else(|| "unknown".to_owned()),
        false => shares.join(", "),
    };
    (!workers.is_empty()).then(|| format!("memory {}; pages of buffers: {pages}", policies.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_reported_by_node_or_not_at_all() {
        let mut memory = WorkerMemory {
            policy: "local".to_owned(),
            buffers_policy: "local".to_owned(),
            page_bytes: 4096,
            buffer_pages_by_node: Some(BTreeMap::from([(0, 12), (1, 3)])),
            unknown: None,
        };
        assert_eq!(memory.words(), "node 0: 12, node 1: 3");
        memory.buffer_pages_by_node = None;
        assert_eq!(memory.words(), "-");
    }

    #[test]
    fn workers_are_reported_together_by_their_shares_of_pages() {
        let on = |nodes: &[(u32, u64)]| WorkerMemory {
            policy: "interleave".to_owned(),
            buffers_policy: "node:1".to_owned(),
            page_bytes: 4096,
            buffer_pages_by_node: Some(nodes.iter().copied().collect()),
            unknown: None,
        };
        let both = [on(&[(0, 50), (1, 100)]), on(&[(1, 50)])];
        assert_eq!(
            sentence(both.iter()).unwrap(),
            "memory interleave, buffers node:1; pages of buffers: 25.0 % on node 0, 75.0 % on node 1"
        );
        let unknown = WorkerMemory {
            buffer_pages_by_node: None,
            unknown: Some("no NUMA".to_owned()),
            ..on(&[])
        };
        assert!(sentence([&unknown].into_iter()).unwrap().ends_with("no NUMA"));
        assert_eq!(sentence(std::iter::empty()), None);
    }
}
