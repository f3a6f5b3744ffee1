//! The readers' view of a flow map: lookups in batches.

use super::FlowKey;
use super::protocol::{First, Flows};
use crate::batch::{BLOCK, Call, Lookup, Prefetch, blocks};
use crate::cuckoo::{Bounds, Cuckoo, FlowSlots, Layout, Moves, Place};
use crate::memory::{
    GrantedPages, Kernel, Lanes, Line, MemoryError, Placement, Region, prefetch, with_widest_vectors,
};
use crate::mix::{HashWords, Seed};
use std::sync::atomic::AtomicU64;

/// The index and the records of a flow map, shared by its readers. See [`FlowMap`](super::FlowMap).
pub struct FlowTable<const WORDS: usize> {
    lines: Region<Line>,
    records: Region<AtomicU64>,
    pub(crate) bounds: Bounds,
    hash: HashWords,
    pub(crate) seed: Seed,
    moves: Moves,
}

impl<const WORDS: usize> FlowTable<WORDS> {
    const STRIDE: usize = Flows::<AtomicU64, WORDS>::STRIDE;

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

    /// The value of a flow. For several, [`Lookup::lookup`] is many times as fast.
    #[must_use]
    pub fn get(&self, key: &FlowKey<WORDS>) -> Option<u32> {
        self.flows().get(&self.place(key), key)
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

    /// Every flow and its value, in no particular order. For the writer only: concurrent changes would mix up flows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowKey<WORDS>, u32)> {
        let flows = self.flows();
        let entries = flows.index.entries();
        entries.map(move |(_, entry)| flows.flow(entry.payload))
    }

    #[inline(always)]
    pub(crate) fn flows(&self) -> Flows<'_, AtomicU64, WORDS> {
        Flows {
            index: Cuckoo::new(&self.lines, &self.moves.0, self.bounds),
            records: &self.records,
        }
    }

    /// How many records it has room for.
    pub(crate) fn records(&self) -> u32 {
        (self.records.len() / Self::STRIDE) as u32 - 1
    }

    #[inline(always)]
    pub(crate) fn place(&self, key: &FlowKey<WORDS>) -> Place {
        self.bounds.place(self.hash.hash(&key.0), 0)
    }
}

impl<const WORDS: usize> Lookup for FlowTable<WORDS> {
    type Key = FlowKey<WORDS>;
    type Answer = u32;

    #[inline]
    fn prefetch(&self, keys: &[FlowKey<WORDS>]) {
        for key in keys {
            prefetch(self.flows().index.line(self.place(key).home));
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
        with_widest_vectors(Call {
            table: self,
            keys,
            upcoming,
            ahead,
            answers,
        });
    }
}

impl<const WORDS: usize> Kernel for Call<'_, FlowTable<WORDS>> {
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let table = self.table;
        let flows = table.flows();
        for block in blocks(self.keys, self.upcoming, self.ahead) {
            let before = flows.index.moves();
            let mut places = [Place::default(); BLOCK];
            let mut firsts = [First::default(); BLOCK];
            let mut ahead = block.ahead.into_iter().flatten();
            for ((key, place), first) in block.keys.iter().zip(&mut places).zip(&mut firsts) {
                if let Some(ahead) = ahead.next() {
                    prefetch(flows.index.line(table.place(ahead).home));
                }
                *place = table.place(key);
                *first = flows.look_first::<V>(place, before);
            }
            let answers = &mut self.answers[block.first..][..block.keys.len()];
            for (index, (key, answer)) in block.keys.iter().zip(answers).enumerate() {
                *answer = flows.look_again(&places[index], key, firsts[index], before);
            }
        }
    }
}
