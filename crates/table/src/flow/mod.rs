//! Flow tables: maps from keys of fixed width to 32-bit values.
//!
//! A line of 64 bytes indexes eight flows; each has a record with its key and value. A lookup of an absent flow reads
//! one line, of a present one two. `key` defines flow keys, `protocol` the operations of readers and writer, `table`
//! the readers' view, `writer` the changes.

mod key;
mod protocol;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use key::FlowKey;
pub use table::FlowTable;
pub use writer::FlowWriter;

use crate::map::Map;
use crate::memory::{MemoryError, Placement};
use crate::mix::Seed;

/// A map from flows to integers, such as the number of the flow's state. `WORDS` words of eight bytes make a key: two for
/// IPv4 addresses, ports and protocol (13 bytes), five for IPv6 (37 bytes).
///
/// Memory: 16 bytes of index per entry at the initial capacity, and a record of `WORDS` + 1 words rounded up to a power
/// of two (32 bytes for IPv4, 64 for IPv6); at least 1 MiB of index. It grows by half when it is full: a table of the
/// new size is filled and published while readers use the old one. An insert fails only if there is no memory
/// for that.
///
/// Readers see each entry before or after a change, never anything else.
pub type FlowMap<const WORDS: usize> = Map<FlowWriter<WORDS>>;

impl<const WORDS: usize> FlowMap<WORDS> {
    /// An empty map with room for this many flows before it grows.
    ///
    /// # Errors
    /// If there is no memory, or the node does not exist.
    pub fn with_capacity(
        flows: usize,
        seed: Seed,
        placement: Placement,
    ) -> Result<FlowMap<WORDS>, MemoryError> {
        FlowWriter::with_capacity(flows, seed, placement).map(Map::of_writer)
    }
}
