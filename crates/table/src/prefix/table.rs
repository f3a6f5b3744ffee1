//! The readers' view of a prefix map: lookups in batches.

use super::trie::{Trie, TrieCell, cells_of_a_node};
use crate::address::Address;
use crate::batch::{Lookup, Prefetch, blocks};
use crate::cuckoo::Moves;
use crate::memory::{GrantedPages, MemoryError, Placement, Region, prefetch};
use crate::value::Value;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bits of the root: every IPv4 prefix that the Internet accepts ends here (/24), so nearly every lookup reads one line.
/// Fuzzing takes a smaller root, because it checks a whole table per input.
pub(crate) const ROOT_BITS: u32 = if cfg!(fuzzing) { 16 } else { 24 };
/// Bits of a node: a kilobyte of cells.
pub(crate) const NODE_BITS: u32 = 8;

pub(crate) type AddressTrie<'a> = Trie<'a, AtomicU32, AtomicU64, ROOT_BITS, NODE_BITS>;

/// The cells of a prefix map, shared by its readers. See [`PrefixMap`](super::PrefixMap).
pub struct PrefixTable<A: Address> {
    pub(crate) root: Region<AtomicU32>,
    pub(crate) nodes: Region<AtomicU32>,
    reuses: Moves,
    family: PhantomData<A>,
}

impl<A: Address> PrefixTable<A> {
    /// An empty table with room for `nodes` nodes. The kernel provides memory for what is touched.
    pub(crate) fn new(nodes: usize, placement: Placement) -> Result<PrefixTable<A>, MemoryError> {
        let root = Region::zeroed(1 << ROOT_BITS, placement)?;
        let nodes = Region::zeroed(nodes * cells_of_a_node(NODE_BITS), placement)?;
        Ok(PrefixTable::of_cells(root, nodes))
    }

    fn of_cells(root: Region<AtomicU32>, nodes: Region<AtomicU32>) -> PrefixTable<A> {
        PrefixTable {
            root,
            nodes,
            reuses: Moves::default(),
            family: PhantomData,
        }
    }

    /// The table in these regions; `None` unless they are a valid table of `nodes` nodes.
    pub(crate) fn of_regions(
        root: Region<AtomicU32>,
        cells: Region<AtomicU32>,
        nodes: usize,
    ) -> Option<PrefixTable<A>> {
        let fits = root.len() == 1 << ROOT_BITS && cells.len() == nodes * cells_of_a_node(NODE_BITS);
        let table = PrefixTable::of_cells(root, cells);
        (fits && table.trie().is_sound(u32::from(A::BITS))).then_some(table)
    }

    /// The value of the longest prefix that contains the address. For several, [`Lookup::lookup`] is many times as fast.
    #[must_use]
    pub fn get(&self, address: A) -> Option<Value> {
        self.trie().find(address.to_high_bits()).value()
    }

    /// The kind of pages of the root.
    #[must_use]
    pub fn pages(&self) -> GrantedPages {
        self.root.pages()
    }

    #[inline(always)]
    pub(crate) fn trie(&self) -> AddressTrie<'_> {
        Trie::new(&self.root, &self.nodes, &self.reuses.0)
    }

    /// Continues the lookup of the keys in `deeper`, each with its next node, one level of all keys at a time. `before`
    /// is the count of reuses before their roots were read.
    fn go_deeper(
        &self,
        deeper: &mut Vec<(u32, u32)>,
        before: u64,
        keys: &[A],
        answers: &mut [Option<Value>],
    ) {
        let trie = self.trie();
        let mut level = 1;
        while !deeper.is_empty() {
            deeper.retain_mut(|(index, node)| {
                let key = keys[*index as usize];
                let bits = key.to_high_bits();
                let entry = trie.node_cell(*node, level, bits).entry();
                let answer = &mut answers[*index as usize];
                if trie.reuses() != before {
                    *answer = self.get(key);
                    return false;
                }
                let Some(next) = entry.node() else {
                    *answer = entry.value();
                    return false;
                };
                *node = next;
                prefetch(trie.node_cell(next, level + 1, bits));
                true
            });
            level += 1;
        }
    }
}

impl<A: Address> Lookup for PrefixTable<A> {
    type Key = A;
    type Answer = Value;

    #[inline]
    fn prefetch(&self, keys: &[A]) {
        for key in keys {
            prefetch(self.trie().root_cell(key.to_high_bits()));
        }
    }

    fn lookup_then(&self, keys: &[A], upcoming: &[A], ahead: Prefetch, answers: &mut [Option<Value>]) {
        assert_eq!(keys.len(), answers.len(), "an answer for each key");
        let trie = self.trie();
        let mut deeper = Vec::new();
        for block in blocks(keys, upcoming, ahead) {
            let before = trie.reuses();
            let mut ahead = block.ahead.into_iter().flatten();
            for (index, key) in (block.first..).zip(block.keys) {
                if let Some(ahead) = ahead.next() {
                    prefetch(trie.root_cell(ahead.to_high_bits()));
                }
                let bits = key.to_high_bits();
                let entry = trie.root_cell(bits).entry();
                answers[index] = entry.value();
                if let Some(node) = entry.node() {
                    prefetch(trie.node_cell(node, 1, bits));
                    deeper.push((index as u32, node));
                }
            }
            self.go_deeper(&mut deeper, before, keys, answers);
        }
    }
}
