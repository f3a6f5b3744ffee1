//! What changes the tables of both families.

use super::AddressTables;
use super::family::FamilyWriter;
use crate::list::{IpPrefix, ListError, ListOptions, ListSummary, read_list};
use crate::map::Writer;
use crate::memory::{MemoryError, Placement};
use crate::mix::Seed;
use crate::value::Value;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The one writer of both families, and the tables that it publishes together.
pub struct AddressWriter {
    pub(super) v4: FamilyWriter<Ipv4Addr>,
    pub(super) v6: FamilyWriter<Ipv6Addr>,
    tables: Arc<AddressTables>,
}

impl Writer for AddressWriter {
    type Table = AddressTables;

    fn table(&self) -> &Arc<AddressTables> {
        &self.tables
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}

impl AddressWriter {
    pub(super) fn new(seed: Seed, placement: Placement) -> AddressWriter {
        AddressWriter {
            v4: FamilyWriter::new(seed, placement),
            v6: FamilyWriter::new(seed, placement),
            tables: Arc::default(),
        }
    }

    /// The writer of the tables of a list. Entries are collected first, so that each table is made once, in its size.
    pub(super) fn from_list(
        text: &[u8],
        options: &ListOptions,
        seed: Seed,
        placement: Placement,
    ) -> Result<(AddressWriter, ListSummary), ListError> {
        let (mut v4_hosts, mut v4_prefixes) = (Vec::new(), Vec::new());
        let (mut v6_hosts, mut v6_prefixes) = (Vec::new(), Vec::new());
        let summary = read_list(text, options, |prefix, value| {
            match prefix {
                IpPrefix::V4(prefix) if prefix.is_host() => v4_hosts.push((prefix.address(), value)),
                IpPrefix::V4(prefix) => v4_prefixes.push((prefix, value)),
                IpPrefix::V6(prefix) if prefix.is_host() => v6_hosts.push((prefix.address(), value)),
                IpPrefix::V6(prefix) => v6_prefixes.push((prefix, value)),
            }
            Ok(())
        })?;
        let mut writer = AddressWriter::new(seed, placement);
        writer.v4.fill(&v4_hosts, &v4_prefixes)?;
        writer.v6.fill(&v6_hosts, &v6_prefixes)?;
        writer.collect();
        Ok((writer, summary))
    }

    pub(super) fn insert(&mut self, prefix: IpPrefix, value: Value) -> Result<Option<Value>, MemoryError> {
        let before = match prefix {
            IpPrefix::V4(prefix) => self.v4.insert(prefix, value),
            IpPrefix::V6(prefix) => self.v6.insert(prefix, value),
        };
        self.collect();
        before
    }

    pub(super) fn remove(&mut self, prefix: IpPrefix) -> Option<Value> {
        match prefix {
            IpPrefix::V4(prefix) => self.v4.remove(prefix),
            IpPrefix::V6(prefix) => self.v6.remove(prefix),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IpPrefix, Value)> {
        let v4 = self
            .v4
            .iter()
            .map(|(prefix, value)| (IpPrefix::V4(prefix), value));
        v4.chain(
            self.v6
                .iter()
                .map(|(prefix, value)| (IpPrefix::V6(prefix), value)),
        )
    }

    /// Joins the tables of now, if any is another one than before.
    pub(super) fn collect(&mut self) {
        let v4 = self.v4.table(&self.tables.v4);
        let v6 = self.v6.table(&self.tables.v6);
        if !Arc::ptr_eq(&v4, &self.tables.v4) || !Arc::ptr_eq(&v6, &self.tables.v6) {
            self.tables = Arc::new(AddressTables { v4, v6 });
        }
    }
}
