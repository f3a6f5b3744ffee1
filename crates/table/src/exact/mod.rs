//! Exact maps: from addresses to values.
//!
//! A line of 64 bytes holds sixteen IPv4 entries or four IPv6 entries with their values, so nearly every lookup reads
//! one line. `table` is the readers' view, `writer` makes the changes, `placing` holds the differences between the
//! families.

mod placing;
mod table;
mod writer;

pub use placing::Placing;
pub use table::ExactTable;
pub use writer::ExactWriter;

use crate::address::Address;
use crate::map::Map;
use crate::memory::{MemoryError, Placement};
use crate::mix::Seed;
use crate::value::Value;

/// A map from addresses to values.
///
/// Memory: 8 bytes per IPv4 entry and 32 bytes per IPv6 entry at the initial capacity, plus 1/64; at least 1 MiB. A map
/// that grew by insertion takes 6.7 to 10 bytes and 27 to 40 bytes. It grows by half when it is fuller than 9.6 of 16,
/// or 2.4 of 4, slots: a table of the new size is filled and published while readers go on with the old one. An insert
/// fails only if there is no memory for that.
///
/// Readers see each entry before or after a change, never anything else: an entry that is moved to make room for another
/// is found throughout.
///
/// A set is a map whose values are all [`Value::MEMBER`].
pub type ExactMap<A> = Map<ExactWriter<A>>;

impl<A: Address> ExactMap<A> {
    /// An empty map with room for this many entries before it grows.
    ///
    /// # Errors
    /// When there is no memory, or no such node.
    pub fn with_capacity(
        entries: usize,
        seed: Seed,
        placement: Placement,
    ) -> Result<ExactMap<A>, MemoryError> {
        ExactWriter::with_capacity(entries, seed, placement).map(Map::of_writer)
    }

    /// Inserts many addresses, with prefetching, for example to load a list. If an address occurs twice, the later
    /// entry counts.
    ///
    /// # Errors
    /// As [`Map::insert`]; the entries before the one that failed are in the map.
    pub fn insert_all(&mut self, entries: &[(A, Value)]) -> Result<(), MemoryError> {
        self.change(|writer| writer.insert_all(entries))
    }
}
