//! The operations of readers and the writer on flow records, and their order.
//!
//! The index follows [`crate::cuckoo`]'s rules: the payload of an entry is the number of a record, which holds the key
//! and the value. A reused record is unlinked, then the move count is incremented, then the record is filled, then
//! linked. A reader that still has its number sees the changed count and retries. [`super::tests`] checks this in every
//! interleaving of small cases.

use super::FlowKey;
use crate::cuckoo::{Cuckoo, FlowSlots, Glance, Location, NoRoom, Overflowed, Place};
use crate::memory::{Lanes, Word, prefetch};

/// The index and the records of flows.
pub(crate) struct Flows<'a, W, const WORDS: usize> {
    pub(crate) index: Cuckoo<'a, FlowSlots, W>,
    /// Number 0 is not used.
    pub(crate) records: &'a [W],
}

/// The first lookup of a key, which read only the index.
#[derive(Clone, Copy, Default)]
pub(crate) struct First(Option<Glance>);

impl<'a, W: Word, const WORDS: usize> Flows<'a, W, WORDS> {
    /// Words of a record: the key, the value, and padding, so that a record spans as few lines as possible.
    pub(crate) const STRIDE: usize = (WORDS + 1).next_power_of_two();

    /// The value of a flow.
    pub(crate) fn get(&self, place: &Place, key: &FlowKey<WORDS>) -> Option<u32> {
        self.index.find(place, |number| self.value_if(number, key))
    }

    /// Reads the home line, and prefetches the record that it refers to.
    #[inline(always)]
    pub(crate) fn look_first<V: Lanes>(&self, place: &Place, before: u64) -> First {
        let glance = self.index.glance::<V>(place, &mut { before });
        if let Some(number) = glance.successor.checked_sub(1) {
            prefetch(&self.record(number)[0]);
        }
        First(Some(glance))
    }

    /// The value of a flow, after the first read of its home line. `before` is the move count before that.
    #[inline(always)]
    pub(crate) fn look_again(
        &self,
        place: &Place,
        key: &FlowKey<WORDS>,
        first: First,
        before: u64,
    ) -> Option<u32> {
        let glance = first.0.filter(|glance| glance.certain);
        if let Some(glance) = glance {
            let number = glance.successor.checked_sub(1)?;
            if let Some(value) = self.value_if(number, key)
                && self.index.moves() == before
            {
                return Some(value);
            }
            // Another flow with the same hash bits, or a reused record.
        }
        self.get(place, key)
    }

    /// The value of a record, if the record has this key.
    #[inline(always)]
    fn value_if(&self, number: u32, key: &FlowKey<WORDS>) -> Option<u32> {
        let record = self.record(number);
        let difference = (0..WORDS).fold(0, |bits, word| bits | record[word].get() ^ key.0[word]);
        let value = record[WORDS].get() as u32;
        (difference == 0).then_some(value)
    }

    /// The words of a record: the key, then the value.
    #[inline(always)]
    fn record(&self, number: u32) -> &'a [W] {
        &self.records[number as usize * Self::STRIDE..][..=WORDS]
    }
}

/// Operations of the writer only.
impl<W: Word, const WORDS: usize> Flows<'_, W, WORDS> {
    /// The entry and the value of a flow.
    pub(crate) fn locate(&self, place: &Place, key: &FlowKey<WORDS>) -> Option<(Location, u32)> {
        let location = self
            .index
            .locate(place, |number| self.value_if(number, key).is_some())?;
        Some((location, self.record(location.entry.payload)[WORDS].get() as u32))
    }

    /// Changes the value of a flow.
    pub(crate) fn set_value(&self, location: &Location, value: u32) {
        self.record(location.entry.payload)[WORDS].set(u64::from(value));
    }

    /// Adds an absent flow in this record, which no entry refers to.
    pub(crate) fn insert(
        &self,
        overflowed: &mut Overflowed,
        place: &Place,
        number: u32,
        (key, value): (FlowKey<WORDS>, u32),
    ) -> Result<(), NoRoom> {
        self.index.count_move();
        let words = key.0.into_iter().chain([u64::from(value)]);
        for (stored, word) in self.record(number).iter().zip(words) {
            stored.set(word);
        }
        self.index.insert(overflowed, place, number)
    }

    /// The key and the value of a record that an entry refers to.
    pub(crate) fn flow(&self, number: u32) -> (FlowKey<WORDS>, u32) {
        let record = self.record(number);
        let key = FlowKey(std::array::from_fn(|word| record[word].get()));
        (key, record[WORDS].get() as u32)
    }
}
