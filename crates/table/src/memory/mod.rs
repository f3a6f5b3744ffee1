//! Memory of tables: zeroed or file-backed, with a choice of page size and NUMA node.
//!
//! The only folder of this crate with unsafe code: memory maps, the vector load of a line, the prefetch instruction.

mod lanes;
mod line;
mod mapping;
mod prefetch;
mod region;
mod scalar;

pub use lanes::vectors;
pub(crate) use lanes::{Baseline, with_widest_vectors};
pub(crate) use line::Kernel;
pub use line::{Lanes, Line, WORDS_PER_LINE, Word};
pub use prefetch::prefetch;
pub use region::Region;
pub(crate) use region::{Cell, bytes_of};
pub(crate) use scalar::scalar;

use std::io;
use thiserror::Error;

/// Where the memory of a table is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The requested pages.
    pub pages: Pages,
    /// The NUMA node to allocate on; `None` leaves it to the kernel (the node of the thread that writes first). The
    /// kernel prefers the node and falls back to others when it is full.
    pub node: Option<u16>,
}

/// The pages to request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages if available: of the reserved pool (`vm.nr_hugepages`) if it holds enough, else transparent ones
    /// (`madvise`), else small ones. Random lines of 64 MiB were read 1.3 times as fast from 2 MiB pages as from 4 KiB.
    #[default]
    Huge,
    /// The system's base pages.
    Small,
}

/// The kind of pages in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedPages {
    /// Pages of the reserved pool.
    Reserved,
    /// Transparent huge pages: the kernel accepted the advice; it may still fall short of them when memory is
    /// fragmented (`AnonHugePages` in `/proc/self/smaps` says).
    Transparent,
    /// Base pages.
    Small,
    /// Pages of the page cache, mapped from a file.
    File,
}

/// Memory could not be allocated.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The kernel refused the mapping.
    #[error(
        "cannot map {bytes} bytes for a table: {source}; free memory, raise the limit, or load a smaller list"
    )]
    Map {
        /// Its size.
        bytes: usize,
        /// Why.
        source: io::Error,
    },
    /// The node was refused.
    #[error("cannot place a table on NUMA node {node}: {source}; see /sys/devices/system/node/online")]
    Node {
        /// The requested node.
        node: u16,
        /// Why.
        source: io::Error,
    },
    /// More entries than the address space or the table's arithmetic holds.
    #[error("a table of {entries} entries is larger than this machine can address; split it")]
    TooLarge {
        /// Number of requested entries.
        entries: usize,
    },
}
