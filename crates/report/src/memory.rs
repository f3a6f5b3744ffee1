//! Where a worker's memory lies: the policy, and the pages as the kernel told them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker's memory by node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerMemory {
    /// The policy of the whole worker: `first-touch`, `local`, `interleave` or `node:N`.
    pub policy: String,
    /// The policy of the buffers that datagrams are received into and sent from.
    pub buffers_policy: String,
    /// Bytes of the pages that are counted.
    pub page_bytes: u64,
    /// Pages of those buffers that were touched, by the node that they are on; `None` where the kernel does not tell.
    pub buffer_pages_by_node: Option<BTreeMap<u32, u64>>,
    /// Why it does not.
    pub unknown: Option<String>,
}

impl WorkerMemory {
    /// The pages by node in a few words: `node 0: 12, node 1: 3`; a dash where there are none, or none are known.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_by_node_or_not_at_all() {
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
}
