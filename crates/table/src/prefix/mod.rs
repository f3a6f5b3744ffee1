//! Prefix maps: from prefixes to values, looked up by longest match.
//!
//! `entry` is one cell, `trie` the cells and their protocol, `table` the readers' view, `writer` the changes, `set` the
//! prefixes of the writer.

mod entry;
mod set;
mod table;
#[cfg(test)]
mod tests;
mod trie;
mod writer;

pub(crate) use set::PrefixSet;
pub(crate) use table::NODE_BITS;
pub use table::PrefixTable;
pub(crate) use trie::{Nodes, cells_of_a_node};
pub use writer::PrefixWriter;

use crate::address::Address;
use crate::map::Map;
use crate::memory::{MemoryError, Placement};

/// A map from prefixes to values, looked up by longest match.
///
/// Memory: 64 MiB of root for the first 24 bits, of which the kernel provides the pages that are touched, and a
/// kilobyte for each group of addresses with the same first 24, 32, 40 … bits that holds longer prefixes; the writer's
/// set of prefixes takes about 10 to 20 bytes each for IPv4 and 20 to 40 for IPv6. If the nodes do not suffice,
/// everything is copied to a table with twice as many, which is published while readers continue. An insert fails only
/// if there is no memory.
///
/// A prefix of many addresses is changed cell by cell, lowest addresses first: a reader sees each address before or after
/// the change, never anything else.
pub type PrefixMap<A> = Map<PrefixWriter<A>>;

impl<A: Address> PrefixMap<A> {
    /// An empty map with room for about this many prefixes before it is copied.
    ///
    /// # Errors
    /// If there is no memory, or the node does not exist.
    pub fn with_capacity(prefixes: usize, placement: Placement) -> Result<PrefixMap<A>, MemoryError> {
        PrefixWriter::with_capacity(prefixes, placement).map(Map::of_writer)
    }
}
