//! What changes the tables of both families.

use super::AddressTables;
use super::family::FamilyWriter;
use crate::list::IpPrefix;
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
    type Key = IpPrefix;
    type Value = Value;

    fn table(&self) -> &Arc<AddressTables> {
        &self.tables
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }

    fn insert(&mut self, prefix: IpPrefix, value: Value) -> Result<Option<Value>, MemoryError> {
        let before = match prefix {
            IpPrefix::V4(prefix) => self.v4.insert(prefix, value),
            IpPrefix::V6(prefix) => self.v6.insert(prefix, value),
        };
        self.collect();
        before
    }

    fn remove(&mut self, prefix: IpPrefix) -> Option<Value> {
        match prefix {
            IpPrefix::V4(prefix) => self.v4.remove(prefix),
            IpPrefix::V6(prefix) => self.v6.remove(prefix),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (IpPrefix, Value)> {
        let v4 = self.v4.iter().map(|(prefix, value)| (prefix.into(), value));
        v4.chain(self.v6.iter().map(|(prefix, value)| (prefix.into(), value)))
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

    /// Publishes the current tables together, if one of them was replaced.
    pub(super) fn collect(&mut self) {
        if !self.v4.is_current(&self.tables.v4) || !self.v6.is_current(&self.tables.v6) {
            self.tables = Arc::new(AddressTables {
                v4: self.v4.table(),
                v6: self.v6.table(),
            });
        }
    }
}
