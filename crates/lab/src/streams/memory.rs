//! Where memory goes while connections are held: readings before the server starts and while every connection is open.

use super::document::{CacheGrowth, Memory};
use super::server::ServerProcesses;
use corelane_host::bed::Bed;
use corelane_host::counters::{Family, Slab, SlabCache, TcpStatistics, tcp_buffer_bytes};
use corelane_host::memory;

/// Caches of the kernel that are named: those that a connection needs, and a few for what else grew.
const MOST_CACHES: usize = 10;

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
    let grown = |more: Option<u64>, less: Option<u64>| Some(more?.saturating_sub(less?));
    let slabs = |of: &KernelMemory| of.slab.as_ref().map(|slab| slab.bytes);
    Memory {
        connections: established.unwrap_or(0),
        client_user_bytes: of(Family::read(generator)),
        server_user_bytes: of(server.family()),
        server_user_bytes_before,
        kernel_slab_bytes: grown(slabs(&now), slabs(before)),
        socket_buffer_bytes: grown(now.buffer_bytes, before.buffer_bytes),
        unavailable_bytes: grown(before.available_bytes, now.available_bytes),
        caches: caches(&now, before),
    }
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
