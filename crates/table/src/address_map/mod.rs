//! Both families in one map: hosts and prefixes enter, the value of the longest match leaves, and all of it is replaced,
//! saved and opened as one.
//!
//! `family` joins the exact and the prefix table of one family, `writer` both families; `snapshot` is their file, `load`
//! takes that or a list.

mod family;
mod load;
mod snapshot;
mod writer;

pub use family::FamilyTable;
pub use load::{LoadError, Loaded};
pub use snapshot::{SnapshotError, SnapshotMemory};
pub use writer::AddressWriter;

use crate::list::{IpPrefix, ListError, ListOptions, ListSummary};
use crate::map::Map;
use crate::memory::{MemoryError, Placement};
use crate::mix::Seed;
use crate::value::Value;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A map from addresses and prefixes of both families to values, looked up by longest match: what a block list or an
/// allow list becomes.
///
/// Single addresses live in an exact table, prefixes in a prefix table, of each family that there are any of; a lookup
/// reads one or two lines accordingly. Memory and growth are those of [`ExactMap`](crate::ExactMap) and
/// [`PrefixMap`](crate::PrefixMap).
pub type AddressMap = Map<AddressWriter>;

/// What readers of an [`AddressMap`] see: a table for each family.
#[derive(Default)]
pub struct AddressTables {
    v4: Arc<FamilyTable<Ipv4Addr>>,
    v6: Arc<FamilyTable<Ipv6Addr>>,
}

impl AddressTables {
    /// The IPv4 table.
    #[must_use]
    pub fn v4(&self) -> &FamilyTable<Ipv4Addr> {
        &self.v4
    }

    /// The IPv6 table.
    #[must_use]
    pub fn v6(&self) -> &FamilyTable<Ipv6Addr> {
        &self.v6
    }
}

impl AddressMap {
    /// An empty map, which takes next to no memory.
    #[must_use]
    pub fn new(seed: Seed, placement: Placement) -> AddressMap {
        Map::of_writer(AddressWriter::new(seed, placement))
    }

    /// The map of a list; see [`read_list`](crate::read_list). Of two entries for one prefix the later one counts.
    ///
    /// # Errors
    /// The first line that is wrong, unless they are skipped; no memory.
    pub fn from_list(
        text: &[u8],
        options: &ListOptions,
        seed: Seed,
        placement: Placement,
    ) -> Result<(AddressMap, ListSummary), ListError> {
        let (writer, summary) = AddressWriter::from_list(text, options, seed, placement)?;
        Ok((Map::of_writer(writer), summary))
    }

    /// Writes the map to an empty file, in this machine's byte order, for [`AddressMap::open`]. A file that somebody may
    /// have opened must not be written again: write a new one and rename it.
    ///
    /// # Errors
    /// What writing the file fails with.
    pub fn save(&self, file: &File) -> Result<(), SnapshotError> {
        snapshot::save(self.writer(), file)
    }

    /// The map of a file that [`AddressMap::save`] wrote. Its checksums are checked, and that no part points outside.
    ///
    /// The entries of a mapped file are the page cache's until they are changed: a file that is cut short while it is
    /// mapped ends the process (`SIGBUS`), one that is overwritten gives wrong answers.
    ///
    /// # Errors
    /// When it is no snapshot, one of another version or byte order, or damaged; no memory.
    pub fn open(file: &File, memory: SnapshotMemory) -> Result<AddressMap, SnapshotError> {
        Ok(Map::of_writer(snapshot::open(file, memory)?))
    }

    /// Maps a prefix to a value, and gives the one that it mapped to before.
    ///
    /// # Errors
    /// When a table must grow and there is no memory for it; the map is then as it was.
    pub fn insert(&mut self, prefix: IpPrefix, value: Value) -> Result<Option<Value>, MemoryError> {
        self.change(|writer| writer.insert(prefix, value))
    }

    /// Removes a prefix, and gives what it mapped to. Its addresses map to what the prefix around it says.
    pub fn remove(&mut self, prefix: IpPrefix) -> Option<Value> {
        self.change(|writer| Ok(writer.remove(prefix))).ok().flatten()
    }

    /// Every prefix and its value, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (IpPrefix, Value)> {
        self.writer().iter()
    }
}
