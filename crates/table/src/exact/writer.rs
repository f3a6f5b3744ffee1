//! Changes to an exact table: insertion, removal, growth.

use super::ExactTable;
use crate::address::Address;
use crate::cuckoo::{FEWEST_LINES, Layout, NoRoom, Place, grown};
use crate::map::Writer;
use crate::memory::{MemoryError, Placement, Region, prefetch};
use crate::mix::Seed;
use crate::value::Value;
use std::sync::Arc;

/// The only writer of a table; it replaces the table when it is full.
pub struct ExactWriter<A: Address> {
    pub(crate) table: Arc<ExactTable<A>>,
    pub(crate) overflowed: Region<u8>,
    pub(crate) len: usize,
    pub(crate) placement: Placement,
}

impl<A: Address> Writer for ExactWriter<A> {
    type Table = ExactTable<A>;
    type Key = A;
    type Value = Value;

    fn table(&self) -> &Arc<ExactTable<A>> {
        &self.table
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.overflowed.bytes()
    }

    fn insert(&mut self, address: A, value: Value) -> Result<Option<Value>, MemoryError> {
        let cuckoo = self.table.cuckoo();
        if let Some(location) = cuckoo.locate(&self.table.place(address), |_| true) {
            cuckoo.set_payload(&location, u32::from(value.get()));
            return Ok(Some(Value::from_low_bits(location.entry.payload)));
        }
        if self.len >= self.limit() {
            self.grow()?;
        }
        while self.add(self.table.place(address), value).is_err() {
            self.grow()?;
        }
        Ok(None)
    }

    fn remove(&mut self, address: A) -> Option<Value> {
        let cuckoo = self.table.cuckoo();
        let location = cuckoo.locate(&self.table.place(address), |_| true)?;
        cuckoo.remove(&mut self.overflowed, &location);
        self.len = self.len.saturating_sub(1);
        Some(Value::from_low_bits(location.entry.payload))
    }

    fn iter(&self) -> impl Iterator<Item = (A, Value)> {
        self.table.iter()
    }
}

/// The largest share of slots in use. Up to here two lines always sufficed in trials with random keys.
const FULLEST: f64 = 0.6;
/// Prefetch distance of bulk insertion, in keys.
const AHEAD: usize = 32;

impl<A: Address> ExactWriter<A> {
    /// The writer of a new table for this many entries.
    pub(crate) fn with_capacity(
        entries: usize,
        seed: Seed,
        placement: Placement,
    ) -> Result<ExactWriter<A>, MemoryError> {
        let lines = (entries as f64 / A::ENTRIES_A_LINE).ceil();
        if lines >= f64::from(u32::MAX) {
            return Err(MemoryError::TooLarge { entries });
        }
        ExactWriter::empty((lines as u32).max(FEWEST_LINES), seed, placement)
    }

    fn empty(lines: u32, seed: Seed, placement: Placement) -> Result<ExactWriter<A>, MemoryError> {
        let memory = Region::zeroed(lines as usize, placement)?;
        Ok(ExactWriter {
            table: Arc::new(ExactTable::of_lines(memory, seed)),
            overflowed: Region::zeroed(lines as usize, placement)?,
            len: 0,
            placement,
        })
    }

    /// Maps many addresses; see [`super::ExactMap::insert_all`].
    pub(crate) fn insert_all(&mut self, entries: &[(A, Value)]) -> Result<(), MemoryError> {
        for (index, (address, value)) in entries.iter().enumerate() {
            if let Some((ahead, _)) = entries.get(index + AHEAD) {
                prefetch(self.table.cuckoo().line(self.table.place(*ahead).home));
            }
            self.insert(*address, *value)?;
        }
        Ok(())
    }

    /// Adds an absent address.
    fn add(&mut self, place: Place, value: Value) -> Result<(), NoRoom> {
        let payload = u32::from(value.get());
        self.table
            .cuckoo()
            .insert(&mut self.overflowed, &place, payload)?;
        self.len += 1;
        Ok(())
    }

    /// The number of entries at which the table grows.
    fn limit(&self) -> usize {
        (self.table.lines.len() as f64 * A::Slots::SLOTS as f64 * FULLEST) as usize
    }

    /// Replaces the table by a larger one.
    #[cold]
    fn grow(&mut self) -> Result<(), MemoryError> {
        let (old, full) = (&self.table, self.len >= self.limit() / 2);
        *self = grown((old.bounds.lines(), old.seed), self.len, full, |lines, seed| {
            let mut next = ExactWriter::empty(lines, seed, self.placement)?;
            Ok(next.take(old).is_ok().then_some(next))
        })?;
        Ok(())
    }

    /// Adds all entries of another table to this one, which has none of them.
    fn take(&mut self, other: &ExactTable<A>) -> Result<(), NoRoom> {
        if other.seed == self.table.seed {
            // Both tables order the mixed addresses alike, so this reads and writes memory from end to end.
            let mut entries = other.mixed_entries();
            entries.try_for_each(|(upper, rest, value)| self.add(self.table.bounds.place(upper, rest), value))
        } else {
            let mut entries = other.iter();
            entries.try_for_each(|(address, value)| self.add(self.table.place(address), value))
        }
    }
}
