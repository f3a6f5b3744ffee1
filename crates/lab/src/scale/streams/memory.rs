//! Where memory goes while connections are held: readings before the server starts and while every connection is open.

use corelane_host::bed::Bed;
use corelane_host::counters::{Family, Slab, SlabCache, TcpStatistics, tcp_buffer_bytes};
use corelane_host::{HostError, memory, processes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Caches of the kernel that are named: those that a connection needs, and a few for what else grew.
const MOST_CACHES: usize = 10;

/// The processes of a server, which any thread can query.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerProcesses {
    pub(super) first: u32,
    /// Whether the first process is only the keeper of the others.
    pub(super) keeps: bool,
}

impl ServerProcesses {
    /// Their CPU time and process ids.
    pub(super) fn family(self) -> Result<Family, HostError> {
        match self.keeps {
            true => Family::below(self.first),
            false => Family::read(self.first),
        }
    }

    /// Whether all are stopped, by a signal or a debugger.
    pub(super) fn are_stopped(self) -> bool {
        let members = self.family().unwrap_or_default().members;
        !members.is_empty() && members.into_keys().all(processes::is_stopped)
    }
}

/// The kernel's memory at one moment, of the whole machine. What cannot be read here is `None`.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelMemory {
    slab: Option<Slab>,
    buffer_bytes: Option<u64>,
    available_bytes: Option<u64>,
}

impl KernelMemory {
    /// Reads it.
    pub(super) fn take() -> Self {
        Self {
            slab: Slab::read().ok(),
            buffer_bytes: tcp_buffer_bytes().ok(),
            available_bytes: memory::available_bytes().ok(),
        }
    }
}

/// Reads what there is now, and what the kernel's grew by since `before`.
pub(super) fn take(
    bed: &Bed,
    server: ServerProcesses,
    generator: u32,
    server_user_bytes_before: Option<u64>,
    before: &KernelMemory,
) -> Memory {
    let now = KernelMemory::take();
    let established = bed
        .server
        .run(|| TcpStatistics::read().map(|read| read.established));
    let of = |family: Result<Family, _>| family.ok().and_then(|family| family.memory_bytes());
    let (client, server) = (Family::read(generator), server.family());
    let grown = |more: Option<u64>, less: Option<u64>| Some(more?.saturating_sub(less?));
    let slabs = |of: &KernelMemory| of.slab.as_ref().map(|slab| slab.bytes);
    Memory {
        connections: established.unwrap_or(0),
        nodes: nodes(client.as_ref().ok(), server.as_ref().ok()),
        client_user_bytes: of(client),
        server_user_bytes: of(server),
        server_user_bytes_before,
        kernel_slab_bytes: grown(slabs(&now), slabs(before)),
        socket_buffer_bytes: grown(now.buffer_bytes, before.buffer_bytes),
        unavailable_bytes: grown(before.available_bytes, now.available_bytes),
        caches: caches(&now, before),
    }
}

/// The memory of both sides by node.
fn nodes(client: Option<&Family>, server: Option<&Family>) -> Vec<NodeMemory> {
    let mut nodes: BTreeMap<u32, NodeMemory> = BTreeMap::new();
    let of = |family: Option<&Family>| family.and_then(Family::memory_by_node).unwrap_or_default();
    for (node, bytes) in of(client) {
        nodes.entry(node).or_default().client_user_bytes = bytes;
    }
    for (node, bytes) in of(server) {
        nodes.entry(node).or_default().server_user_bytes = bytes;
    }
    let named = nodes
        .into_iter()
        .map(|(node, memory)| NodeMemory { node, ..memory });
    named.collect()
}

/// The slabs that grew most, the largest first.
fn caches(now: &KernelMemory, before: &KernelMemory) -> Vec<CacheGrowth> {
    let (Some(now), Some(before)) = (&now.slab, &before.slab) else {
        return Vec::new();
    };
    let since = |(name, cache): (&String, &SlabCache)| {
        let earlier = before.caches.get(name).copied().unwrap_or_default();
        CacheGrowth {
            name: name.clone(),
            objects: cache.objects.saturating_sub(earlier.objects),
            bytes: cache.bytes.saturating_sub(earlier.bytes),
        }
    };
    let mut grown: Vec<CacheGrowth> = now.caches.iter().map(since).collect();
    grown.retain(|cache| cache.bytes > 0);
    grown.sort_by_key(|cache| std::cmp::Reverse(cache.bytes));
    grown.truncate(MOST_CACHES);
    grown
}

/// Below so many connections, memory a connection is mostly memory that would be there without any.
pub const FEWEST_TO_SHARE: u64 = 1_000;

/// What was held at one moment of a trial, in bytes. The kernel's is what the whole machine's grew by since before the
/// server was started, so that other programs' growth is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Connections that were open then, on both sides.
    pub connections: u64,
    /// Of the client's processes, all that is not backed by a file.
    pub client_user_bytes: Option<u64>,
    /// Of the server's processes, likewise.
    pub server_user_bytes: Option<u64>,
    /// Of the server's processes before the first connection.
    pub server_user_bytes_before: Option<u64>,
    /// The kernel's slabs.
    pub kernel_slab_bytes: Option<u64>,
    /// Buffers of TCP sockets.
    pub socket_buffer_bytes: Option<u64>,
    /// What is no longer available on the machine, by the kernel's own estimate: the check on the sum of the others.
    pub unavailable_bytes: Option<u64>,
    /// The slabs that grew most, the largest first.
    pub caches: Vec<CacheGrowth>,
    /// The processes' memory by node; empty if the kernel does not report it.
    #[serde(default)]
    pub nodes: Vec<NodeMemory>,
}

/// What is not backed by a file on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMemory {
    /// The node.
    pub node: u32,
    /// Of the client's processes, in bytes.
    pub client_user_bytes: u64,
    /// Of the server's processes, in bytes.
    pub server_user_bytes: u64,
}

/// How much one of the kernel's caches grew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheGrowth {
    /// The kernel's name of it.
    pub name: String,
    /// Objects more.
    pub objects: u64,
    /// Bytes more, waste included.
    pub bytes: u64,
}

/// The same for one connection, which is a socket on either side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPerConnection {
    /// Of the client's processes.
    pub client_user_bytes: Option<f64>,
    /// Of the server's processes.
    pub server_user_bytes: Option<f64>,
    /// The kernel's slabs and socket buffers, for both sides together.
    pub kernel_bytes: Option<f64>,
}

impl Memory {
    /// Everything, a line each: whose it is, objects where they are counted, bytes in all.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, Option<u64>, Option<u64>)> {
        let sums = [
            ("client, user space", self.client_user_bytes),
            ("server, user space", self.server_user_bytes),
            (
                "server before the first connection",
                self.server_user_bytes_before,
            ),
            ("kernel, buffers of TCP sockets", self.socket_buffer_bytes),
            ("kernel, slabs", self.kernel_slab_bytes),
            ("no longer available on the machine", self.unavailable_bytes),
        ];
        let mut rows = sums.map(|(name, bytes)| (name.to_owned(), None, bytes)).to_vec();
        let caches = self.caches.iter();
        let caches = caches.map(|cache| {
            (
                format!("  {}", cache.name),
                Some(cache.objects),
                Some(cache.bytes),
            )
        });
        // They are part of the slabs.
        rows.splice(5..5, caches);
        let on_node = |of: fn(&NodeMemory) -> u64| {
            let row = move |node: &NodeMemory| (format!("  on node {}", node.node), None, Some(of(node)));
            self.nodes.iter().map(row)
        };
        rows.splice(2..2, on_node(|node| node.server_user_bytes));
        rows.splice(1..1, on_node(|node| node.client_user_bytes));
        rows
    }

    /// Shared out among the connections; nothing where they are too few.
    pub(crate) fn per_connection(&self) -> MemoryPerConnection {
        let share = |bytes: Option<u64>| {
            let enough = self.connections >= FEWEST_TO_SHARE;
            bytes
                .filter(|_| enough)
                .map(|bytes| bytes as f64 / self.connections as f64)
        };
        let kernel = self.kernel_slab_bytes.zip(self.socket_buffer_bytes);
        MemoryPerConnection {
            client_user_bytes: share(self.client_user_bytes),
            server_user_bytes: share(self.server_user_bytes),
            kernel_bytes: share(kernel.map(|(slab, buffers)| slab + buffers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_each_side_stand_below_its_sum() {
        let on = |node, client_user_bytes, server_user_bytes| NodeMemory {
            node,
            client_user_bytes,
            server_user_bytes,
        };
        let memory = Memory {
            client_user_bytes: Some(30),
            server_user_bytes: Some(70),
            nodes: vec![on(0, 30, 1), on(1, 0, 69)],
            ..Memory::default()
        };
        let rows = memory.rows();
        let rows: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.2)).take(6).collect();
        let expected = [
            ("client, user space", Some(30)),
            ("  on node 0", Some(30)),
            ("  on node 1", Some(0)),
            ("server, user space", Some(70)),
            ("  on node 0", Some(1)),
            ("  on node 1", Some(69)),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn memory_is_shared_out_only_among_many() {
        let memory = Memory {
            connections: 10_000,
            client_user_bytes: Some(5_000_000),
            kernel_slab_bytes: Some(70_000_000),
            socket_buffer_bytes: Some(10_000_000),
            ..Memory::default()
        };
        let each = memory.per_connection();
        assert_eq!(
            (each.client_user_bytes, each.kernel_bytes),
            (Some(500.0), Some(8000.0))
        );
        assert_eq!(each.server_user_bytes, None);
        let few = Memory {
            connections: 10,
            ..memory
        };
        assert_eq!(few.per_connection(), MemoryPerConnection::default());
    }
}
