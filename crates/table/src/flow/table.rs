//! What readers of a flow map see: keys enter, values leave, in batches.

use super::FlowKey;
use crate::batch::{BLOCK, Lookup, Prefetch, Row};
use crate::cuckoo::{Bounds, Cuckoo, FlowSlots, Layout, Place};
use crate::exact::Moves;
use crate::memory::{
    GrantedPages, Kernel, Lanes, Line, MemoryError, Placement, Region, Word, prefetch, with_widest_vectors,
};
use crate::mix::{HashWords, Seed};
use std::sync::atomic::AtomicU64;

/// The index and the records of a flow map, shared by its readers. See [`FlowMap`](super::FlowMap).
pub struct FlowTable<const WORDS: usize> {
    lines: Region<Line>,
    records: Region<AtomicU64>,
    bounds: Bounds,
    hash: HashWords,
    seed: Seed,
    moves: Moves,
}

/// A number of [`Glance`](crate::cuckoo::Glance) that stands for: look again.
const UNCERTAIN: u32 = u32::MAX;

impl<const WORDS: usize> FlowTable<WORDS> {
    /// Words of a record: the key, the value, and what keeps records from straddling more lines than they must.
    const STRIDE: usize = (WORDS + 1).next_power_of_two();

    /// An empty table with room for `records` records, numbered from 1.
    pub(crate) fn new(
        lines: u32,
        records: u32,
        seed: Seed,
        placement: Placement,
    ) -> Result<FlowTable<WORDS>, MemoryError> {
        Ok(FlowTable {
            lines: Region::zeroed(lines as usize, placement)?,
            records: Region::zeroed((records as usize + 1) * Self::STRIDE, placement)?,
            bounds: Bounds::new(lines, u64::BITS, FlowSlots::REMAINDER_BITS),
            hash: HashWords::new(seed),
            seed,
            moves: Moves::default(),
        })
    }

    /// What a flow maps to. For more than one, [`Lookup::lookup`] is many times as fast.
    #[must_use]
    pub fn get(&self, key: &FlowKey<WORDS>) -> Option<u32> {
        self.cuckoo()
            .find(&self.place(key), |number| self.value_if(number, key))
    }

    /// The pages that hold the records.
    #[must_use]
    pub fn pages(&self) -> GrantedPages {
        self.records.pages()
    }

    /// Bytes of index and records.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.bytes() + self.records.bytes()
    }

    /// Every flow and its value, in no order that means anything. What a writer changes meanwhile may be seen or not.
    pub fn iter(&self) -> impl Iterator<Item = (FlowKey<WORDS>, u32)> {
        self.cuckoo().entries().map(|(_, entry)| {
            let record = self.record(entry.payload);
            (
                FlowKey(std::array::from_fn(|word| record[word].get())),
                record[WORDS].get() as u32,
            )
        })
    }

    pub(crate) fn cuckoo(&self) -> Cuckoo<'_, FlowSlots, AtomicU64> {
        Cuckoo::new(&self.lines, &self.moves.0, self.bounds)
    }

    pub(crate) fn lines(&self) -> u32 {
        self.bounds.lines()
    }

    /// How many records it has room for.
    pub(crate) fn records(&self) -> u32 {
        (self.records.len() / Self::STRIDE) as u32 - 1
    }

    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    #[inline(always)]
    pub(crate) fn place(&self, key: &FlowKey<WORDS>) -> Place {
        self.bounds.place(self.hash.hash(&key.0), 0)
    }

    /// The words of a record: the key, then the value.
    #[inline(always)]
    pub(crate) fn record(&self, number: u32) -> &[AtomicU64] {
        &self.records[number as usize * Self::STRIDE..][..=WORDS]
    }

    /// The value of a record, if it is this key's.
    #[inline(always)]
    pub(crate) fn value_if(&self, number: u32, key: &FlowKey<WORDS>) -> Option<u32> {
        let record = self.record(number);
        let difference = (0..WORDS).fold(0, |bits, word| bits | record[word].get() ^ key.0[word]);
        let value = record[WORDS].get() as u32;
        (difference == 0).then_some(value)
    }
}

impl<const WORDS: usize> Lookup for FlowTable<WORDS> {
    type Key = FlowKey<WORDS>;
    type Answer = u32;

    #[inline]
    fn prefetch(&self, keys: &[FlowKey<WORDS>]) {
        for key in keys {
            prefetch(self.cuckoo().line(self.place(key).home));
        }
    }

    fn lookup_then(
        &self,
        keys: &[FlowKey<WORDS>],
        upcoming: &[FlowKey<WORDS>],
        ahead: Prefetch,
        answers: &mut [Option<u32>],
    ) {
        assert_eq!(keys.len(), answers.len(), "an answer for each key");
        let row = Row::new(keys, upcoming, ahead);
        with_widest_vectors(Batch {
            table: self,
            row,
            answers,
        });
    }
}

/// One call of [`Lookup::lookup_then`].
struct Batch<'a, const WORDS: usize> {
    table: &'a FlowTable<WORDS>,
    row: Row<'a, FlowKey<WORDS>>,
    answers: &'a mut [Option<u32>],
}

impl<const WORDS: usize> Kernel for Batch<'_, WORDS> {
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let table = self.table;
        let cuckoo = table.cuckoo();
        for block in self.row.blocks() {
            let before = cuckoo.moves();
            let mut numbers = [0; BLOCK];
            let mut ahead = block.ahead.into_iter().flatten();
            for (key, number) in block.keys.iter().zip(&mut numbers) {
                if let Some(ahead) = ahead.next() {
                    prefetch(cuckoo.line(table.place(ahead).home));
                }
                let glance = cuckoo.glance::<V>(&table.place(key), &mut { before });
                *number = if glance.certain {
                    glance.successor
                } else {
                    UNCERTAIN
                };
                if glance.successor != 0 {
                    prefetch(&table.record(glance.successor - 1)[0]);
                }
            }
            let answers = &mut self.answers[block.first..][..block.keys.len()];
            for ((key, number), answer) in block.keys.iter().zip(numbers).zip(answers) {
                *answer = match number {
                    0 => None,
                    UNCERTAIN => table.get(key),
                    successor => match table.value_if(successor - 1, key) {
                        Some(value) if cuckoo.moves() == before => Some(value),
                        // Another flow with the same bits of hash, or the record changed hands.
                        _ => table.get(key),
                    },
                };
            }
        }
    }
}
