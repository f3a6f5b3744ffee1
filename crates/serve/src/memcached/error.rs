//! Why a memcached server could not start or continue.

use crate::server::ServeError;
use corelane_link::LinkError;
use corelane_worker::group::GroupError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Bytes of the partition of a worker at least: its index, its open segments and those to evict need that much.
pub const LEAST_PARTITION: u64 = 2 << 20;

/// Why a memcached server could not start or continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemcachedError {
    /// A cause that all servers share.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Datagrams cannot be steered by key.
    #[error(transparent)]
    Keys(#[from] LinkError),
    /// The memory is too small for the workers.
    #[error(
        "{} MiB for {workers} workers, of which each needs {} at least: give {}, or {} workers at most",
        bytes >> 20,
        LEAST_PARTITION >> 20,
        (*workers as u64 * LEAST_PARTITION) >> 20,
        (bytes / LEAST_PARTITION).max(1)
    )]
    Memory {
        /// Bytes of all workers.
        bytes: u64,
        /// Number of workers.
        workers: usize,
    },
    /// A Unix socket cannot be listened on.
    #[error("{}: {error}", path.display())]
    Unix {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Datagrams cannot be received.
    #[error(transparent)]
    Udp(GroupError),
    /// A Unix socket has no TLS, and all connections of a server have or none.
    #[error("a Unix socket, which has no TLS, and TCP with TLS exclude each other")]
    EncryptedUnix,
    /// The largest item does not fit into the memory of a worker.
    #[error(
        "items of {item} bytes need at least twice as much memory per worker, which has {partition}: give each more, with more \
         memory or fewer workers"
    )]
    Item {
        /// The largest item.
        item: u32,
        /// Bytes of a worker.
        partition: u64,
    },
}
