//! Where memory went while connections were held: of the two processes, and of the kernel.

use serde::{Deserialize, Serialize};

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
        rows
    }

    /// Shared out among the connections; nothing where they are too few.
    #[must_use]
    pub fn per_connection(&self) -> MemoryPerConnection {
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
