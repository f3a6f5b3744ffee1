//! Changes to a flow table: insertion, removal, growth.

use super::{FlowKey, FlowTable};
use crate::cuckoo::{FEWEST_LINES, FlowSlots, Layout, NoRoom, grown};
use crate::map::Writer;
use crate::memory::{MemoryError, Placement, Region};
use crate::mix::Seed;
use std::sync::Arc;

/// The only writer of a table; it replaces the table when it is full.
pub struct FlowWriter<const WORDS: usize> {
    table: Arc<FlowTable<WORDS>>,
    overflowed: Region<u8>,
    /// Records whose flow was removed.
    free: Vec<u32>,
    /// Number of records ever used: 1 to this.
    used: u32,
    placement: Placement,
}

/// Flows per line of the index: half of its eight slots, so that 5 % of the home lines of a full table overflow
/// (Poisson).
const FLOWS_A_LINE: u32 = FlowSlots::SLOTS as u32 / 2;

impl<const WORDS: usize> Writer for FlowWriter<WORDS> {
    type Table = FlowTable<WORDS>;
    type Key = FlowKey<WORDS>;
    type Value = u32;

    fn table(&self) -> &Arc<FlowTable<WORDS>> {
        &self.table
    }

    fn len(&self) -> usize {
        self.used as usize - self.free.len()
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.overflowed.bytes()
    }

    fn insert(&mut self, key: FlowKey<WORDS>, value: u32) -> Result<Option<u32>, MemoryError> {
        let flows = self.table.flows();
        if let Some((location, before)) = flows.locate(&self.table.place(&key), &key) {
            flows.set_value(&location, value);
            return Ok(Some(before));
        }
        while self.add(key, value).is_err() {
            self.grow()?;
        }
        Ok(None)
    }

    fn remove(&mut self, key: FlowKey<WORDS>) -> Option<u32> {
        let flows = self.table.flows();
        let (location, value) = flows.locate(&self.table.place(&key), &key)?;
        flows.index.remove(&mut self.overflowed, &location);
        self.free.push(location.entry.payload);
        Some(value)
    }

    fn iter(&self) -> impl Iterator<Item = (FlowKey<WORDS>, u32)> {
        self.table.iter()
    }
}

impl<const WORDS: usize> FlowWriter<WORDS> {
    /// The writer of a new table for this many flows.
    pub(crate) fn with_capacity(
        flows: usize,
        seed: Seed,
        placement: Placement,
    ) -> Result<FlowWriter<WORDS>, MemoryError> {
        let lines = u32::try_from(flows.div_ceil(FLOWS_A_LINE as usize));
        let lines = lines.map_err(|_| MemoryError::TooLarge { entries: flows })?;
        FlowWriter::empty(lines.max(FEWEST_LINES), seed, placement)
    }

    fn empty(lines: u32, seed: Seed, placement: Placement) -> Result<FlowWriter<WORDS>, MemoryError> {
        if lines >= u32::MAX / FlowSlots::SLOTS as u32 {
            let entries = lines as usize * FLOWS_A_LINE as usize;
            return Err(MemoryError::TooLarge { entries });
        }
        Ok(FlowWriter {
            table: Arc::new(FlowTable::new(lines, lines * FLOWS_A_LINE, seed, placement)?),
            overflowed: Region::zeroed(lines as usize, placement)?,
            free: Vec::new(),
            used: 0,
            placement,
        })
    }

    /// Adds an absent flow.
    fn add(&mut self, key: FlowKey<WORDS>, value: u32) -> Result<(), NoRoom> {
        let fresh = (self.used < self.table.records()).then_some(self.used + 1);
        let number = self.free.last().copied().or(fresh).ok_or(NoRoom)?;
        let place = self.table.place(&key);
        let flows = self.table.flows();
        flows.insert(&mut self.overflowed, &place, number, (key, value))?;
        if self.free.pop().is_none() {
            self.used = number;
        }
        Ok(())
    }

    /// Continues with a larger table.
    #[cold]
    fn grow(&mut self) -> Result<(), MemoryError> {
        let (old, full) = (&self.table, self.len() >= self.table.records() as usize / 2);
        *self = grown((old.bounds.lines(), old.seed), self.len(), full, |lines, seed| {
            let mut next = FlowWriter::empty(lines, seed, self.placement)?;
            let mut flows = old.iter();
            let copied = flows.try_for_each(|(key, value)| next.add(key, value));
            Ok(copied.is_ok().then_some(next))
        })?;
        Ok(())
    }
}
