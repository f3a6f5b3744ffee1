//! Maps of both families: hosts and prefixes, looked up by longest match. The map is replaced, saved and opened as a
//! whole.
//!
//! `family` joins the exact and the prefix table of one family, `writer` both families; `snapshot` is their file, `load`
//! takes that or a list.

mod family;
mod load;
mod snapshot;
mod writer;

pub use family::FamilyTable;
pub use load::{LoadError, Loaded, open_file};
pub use snapshot::{SnapshotError, SnapshotMemory};
pub use writer::AddressWriter;

use crate::batch::{Lookup, Prefetch};
use crate::list::{IpPrefix, ListError, ListOptions, ListSummary, read_list};
use crate::map::Map;
use crate::memory::Placement;
use crate::mix::Seed;
use crate::value::Value;
use family::Entries;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A map from addresses and prefixes of both families to values, looked up by longest match: for example a block list
/// or an allow list.
///
/// Single addresses live in an exact table, prefixes in a prefix table, of each family that there are any of; a lookup
/// reads one or two lines accordingly. Memory and growth are those of [`ExactMap`](crate::ExactMap) and
/// [`PrefixMap`](crate::PrefixMap).
pub type AddressMap = Map<AddressWriter>;

/// What readers of an [`AddressMap`] see: a table for each family.
#[derive(Default)]
pub struct AddressTables {
    /// The IPv4 table.
    pub v4: FamilyTable<Ipv4Addr>,
    /// The IPv6 table.
    pub v6: FamilyTable<Ipv6Addr>,
}

impl AddressMap {
    /// An empty map, which takes next to no memory.
    #[must_use]
    pub fn new(seed: Seed, placement: Placement) -> AddressMap {
        Map::of_writer(AddressWriter::new(seed, placement))
    }

    /// The map of a list; see [`read_list`](crate::read_list). If a prefix occurs twice, the later entry counts.
    ///
    /// # Errors
    /// The first invalid line, unless they are skipped; out of memory.
    pub fn from_list(
        text: &[u8],
        options: &ListOptions,
        seed: Seed,
        placement: Placement,
    ) -> Result<(AddressMap, ListSummary), ListError> {
        // Entries are collected first, so that each table is made once, in its size.
        let (mut v4, mut v6) = (Entries::NONE, Entries::NONE);
        let summary = read_list(text, options, |prefix, value| {
            match prefix {
                IpPrefix::V4(prefix) => v4.push(prefix, value),
                IpPrefix::V6(prefix) => v6.push(prefix, value),
            }
            Ok(())
        })?;
        let mut writer = AddressWriter::new(seed, placement);
        writer.v4.fill(&v4)?;
        writer.v6.fill(&v6)?;
        writer.collect();
        Ok((Map::of_writer(writer), summary))
    }

    /// The value of each address, in order, by the longest prefix; each family is looked up in batches.
    #[must_use]
    pub fn values(&self, addresses: &[IpAddr]) -> Vec<Option<Value>> {
        let (mut fours, mut sixes): (Vec<Ipv4Addr>, Vec<Ipv6Addr>) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => fours.push(*address),
                IpAddr::V6(address) => sixes.push(*address),
            }
        }
        let (mut of_fours, mut of_sixes) = (vec![None; fours.len()], vec![None; sixes.len()]);
        let tables = self.table();
        tables.v4.lookup(&fours, Prefetch::default(), &mut of_fours);
        tables.v6.lookup(&sixes, Prefetch::default(), &mut of_sixes);
        let (mut of_fours, mut of_sixes) = (of_fours.into_iter(), of_sixes.into_iter());
        let value = |address: &IpAddr| match address {
            IpAddr::V4(_) => of_fours.next().flatten(),
            IpAddr::V6(_) => of_sixes.next().flatten(),
        };
        addresses.iter().map(value).collect()
    }

    /// Counts all entries.
    #[must_use]
    pub fn count(&self) -> EntryCounts {
        let mut counts = EntryCounts::default();
        let mut seen = vec![false; usize::from(Value::LARGEST) + 1];
        for (prefix, value) in self.iter() {
            *match prefix {
                IpPrefix::V4(prefix) if prefix.is_host() => &mut counts.ipv4_addresses,
                IpPrefix::V4(_) => &mut counts.ipv4_prefixes,
                IpPrefix::V6(prefix) if prefix.is_host() => &mut counts.ipv6_addresses,
                IpPrefix::V6(_) => &mut counts.ipv6_prefixes,
            } += 1;
            seen[usize::from(value.get())] = true;
        }
        counts.values = seen.iter().filter(|seen| **seen).count() as u64;
        counts
    }
}

/// The entries of a map by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Single IPv4 addresses.
    pub ipv4_addresses: u64,
    /// Prefixes of IPv4.
    pub ipv4_prefixes: u64,
    /// Single IPv6 addresses.
    pub ipv6_addresses: u64,
    /// Prefixes of IPv6.
    pub ipv6_prefixes: u64,
    /// Distinct values.
    pub values: u64,
}
