//! The exact and the prefix table of one family: addresses enter, values of longest matches leave.

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
    hosts: Option<Arc<ExactTable<A>>>,
    prefixes: Option<Arc<PrefixTable<A>>>,
}

impl<A: Address> Default for FamilyTable<A> {
    fn default() -> FamilyTable<A> {
        FamilyTable {
            hosts: None,
            prefixes: None,
        }
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

    /// The single addresses, unless there never were any.
    #[must_use]
    pub fn hosts(&self) -> Option<&ExactTable<A>> {
        self.hosts.as_deref()
    }

    /// The prefixes of more than one address, unless there never were any.
    #[must_use]
    pub fn prefixes(&self) -> Option<&PrefixTable<A>> {
        self.prefixes.as_deref()
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
    seed: Seed,
    placement: Placement,
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

    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    /// Makes the tables for these entries, of which there are as many as can be told now.
    pub(super) fn fill(
        &mut self,
        hosts: &[(A, Value)],
        prefixes: &[(Prefix<A>, Value)],
    ) -> Result<(), MemoryError> {
        if !hosts.is_empty() {
            let mut writer = ExactWriter::with_capacity(hosts.len(), self.seed, self.placement)?;
            writer.insert_all(hosts)?;
            self.hosts = Some(writer);
        }
        if !prefixes.is_empty() {
            let mut writer = PrefixWriter::with_capacity(prefixes.len(), self.placement)?;
            for (prefix, value) in prefixes {
                writer.insert(*prefix, *value)?;
            }
            self.prefixes = Some(writer);
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, prefix: Prefix<A>, value: Value) -> Result<Option<Value>, MemoryError> {
        if prefix.is_host() {
            let hosts = match &mut self.hosts {
                Some(hosts) => hosts,
                none => none.insert(ExactWriter::with_capacity(0, self.seed, self.placement)?),
            };
            hosts.insert(prefix.address(), value)
        } else {
            let prefixes = match &mut self.prefixes {
                Some(prefixes) => prefixes,
                none => none.insert(PrefixWriter::with_capacity(0, self.placement)?),
            };
            prefixes.insert(prefix, value)
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
        let hosts = self.hosts.iter().flat_map(|hosts| hosts.table().iter());
        let prefixes = self.prefixes.iter().flat_map(PrefixWriter::iter);
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

    /// The tables of now: those given, if they still are.
    pub(super) fn table(&self, published: &Arc<FamilyTable<A>>) -> Arc<FamilyTable<A>> {
        let hosts = self.hosts.as_ref().map(Writer::table);
        let prefixes = self.prefixes.as_ref().map(Writer::table);
        if same(hosts, published.hosts.as_ref()) && same(prefixes, published.prefixes.as_ref()) {
            return Arc::clone(published);
        }
        Arc::new(FamilyTable {
            hosts: hosts.cloned(),
            prefixes: prefixes.cloned(),
        })
    }
}

/// Whether both are the same table, or none.
fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}
