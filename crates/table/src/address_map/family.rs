//! The exact and the prefix table of one family, looked up by longest match.

use crate::address::{Address, Prefix};
use crate::batch::{Lookup, Prefetch};
use crate::exact::{ExactTable, ExactWriter};
use crate::map::Writer;
use crate::memory::{MemoryError, Placement};
use crate::mix::Seed;
use crate::prefix::{PrefixTable, PrefixWriter};
use crate::value::Value;
use std::sync::Arc;

/// What readers see of one family of an [`AddressMap`](super::AddressMap).
pub struct FamilyTable<A: Address> {
    /// The single addresses, unless there never were any.
    pub hosts: Option<Arc<ExactTable<A>>>,
    /// The prefixes of more than one address, unless there never were any.
    pub prefixes: Option<Arc<PrefixTable<A>>>,
}

impl<A: Address> Default for FamilyTable<A> {
    fn default() -> FamilyTable<A> {
        let (hosts, prefixes) = (None, None);
        FamilyTable { hosts, prefixes }
    }
}

impl<A: Address> FamilyTable<A> {
    /// What the longest prefix that holds the address maps to. For more than one, [`Lookup::lookup`] is many times as
    /// fast.
    #[must_use]
    pub fn get(&self, address: A) -> Option<Value> {
        let host = self.hosts.as_ref().and_then(|hosts| hosts.get(address));
        host.or_else(|| self.prefixes.as_ref()?.get(address))
    }
}

impl<A: Address> Lookup for FamilyTable<A> {
    type Key = A;
    type Answer = Value;

    fn prefetch(&self, keys: &[A]) {
        if let Some(hosts) = &self.hosts {
            hosts.prefetch(keys);
        }
        if let Some(prefixes) = &self.prefixes {
            prefixes.prefetch(keys);
        }
    }

    fn lookup_then(&self, keys: &[A], upcoming: &[A], ahead: Prefetch, answers: &mut [Option<Value>]) {
        match (&self.hosts, &self.prefixes) {
            (None, None) => answers.fill(None),
            (Some(hosts), None) => hosts.lookup_then(keys, upcoming, ahead, answers),
            (None, Some(prefixes)) => prefixes.lookup_then(keys, upcoming, ahead, answers),
            (Some(hosts), Some(prefixes)) => {
                prefixes.lookup_then(keys, upcoming, ahead, answers);
                let mut exact = vec![None; keys.len()];
                hosts.lookup_then(keys, upcoming, ahead, &mut exact);
                for (answer, exact) in answers.iter_mut().zip(exact) {
                    *answer = exact.or(*answer);
                }
            }
        }
    }
}

/// What changes the tables of one family; each is made when its first entry comes.
pub(super) struct FamilyWriter<A: Address> {
    pub(super) hosts: Option<ExactWriter<A>>,
    pub(super) prefixes: Option<PrefixWriter<A>>,
    pub(super) seed: Seed,
    pub(super) placement: Placement,
}

impl<A: Address> FamilyWriter<A> {
    pub(super) fn new(seed: Seed, placement: Placement) -> FamilyWriter<A> {
        FamilyWriter {
            hosts: None,
            prefixes: None,
            seed,
            placement,
        }
    }

    fn hosts(&mut self, capacity: usize) -> Result<&mut ExactWriter<A>, MemoryError> {
        Ok(match &mut self.hosts {
            Some(hosts) => hosts,
            none => none.insert(ExactWriter::with_capacity(capacity, self.seed, self.placement)?),
        })
    }

    fn prefixes(&mut self, capacity: usize) -> Result<&mut PrefixWriter<A>, MemoryError> {
        Ok(match &mut self.prefixes {
            Some(prefixes) => prefixes,
            none => none.insert(PrefixWriter::with_capacity(capacity, self.placement)?),
        })
    }

    /// Makes the tables for these entries, in their size.
    pub(super) fn fill(&mut self, entries: &Entries<A>) -> Result<(), MemoryError> {
        if !entries.hosts.is_empty() {
            self.hosts(entries.hosts.len())?.insert_all(&entries.hosts)?;
        }
        for (prefix, value) in &entries.prefixes {
            self.prefixes(entries.prefixes.len())?.insert(*prefix, *value)?;
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, prefix: Prefix<A>, value: Value) -> Result<Option<Value>, MemoryError> {
        if prefix.is_host() {
            self.hosts(0)?.insert(prefix.address(), value)
        } else {
            self.prefixes(0)?.insert(prefix, value)
        }
    }

    pub(super) fn remove(&mut self, prefix: Prefix<A>) -> Option<Value> {
        if prefix.is_host() {
            self.hosts.as_mut()?.remove(prefix.address())
        } else {
            self.prefixes.as_mut()?.remove(prefix)
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Value)> {
        let hosts = self.hosts.iter().flat_map(Writer::iter);
        let prefixes = self.prefixes.iter().flat_map(Writer::iter);
        hosts
            .map(|(address, value)| (Prefix::host(address), value))
            .chain(prefixes)
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.as_ref().map_or(0, Writer::len) + self.prefixes.as_ref().map_or(0, Writer::len)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let hosts = self.hosts.as_ref().map_or(0, Writer::memory_bytes);
        hosts + self.prefixes.as_ref().map_or(0, Writer::memory_bytes)
    }

    /// Whether `table` has the tables of now.
    pub(super) fn is_current(&self, table: &FamilyTable<A>) -> bool {
        same(self.hosts.as_ref().map(Writer::table), table.hosts.as_ref())
            && same(self.prefixes.as_ref().map(Writer::table), table.prefixes.as_ref())
    }

    /// The tables of now.
    pub(super) fn table(&self) -> FamilyTable<A> {
        FamilyTable {
            hosts: self.hosts.as_ref().map(Writer::table).cloned(),
            prefixes: self.prefixes.as_ref().map(Writer::table).cloned(),
        }
    }
}

/// Whether both are the same table, or none.
fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

/// The entries of one family in a list.
pub(super) struct Entries<A> {
    hosts: Vec<(A, Value)>,
    prefixes: Vec<(Prefix<A>, Value)>,
}

impl<A: Address> Entries<A> {
    pub(super) const NONE: Entries<A> = Entries {
        hosts: Vec::new(),
        prefixes: Vec::new(),
    };

    pub(super) fn push(&mut self, prefix: Prefix<A>, value: Value) {
        if prefix.is_host() {
            self.hosts.push((prefix.address(), value));
        } else {
            self.prefixes.push((prefix, value));
        }
    }
}
