//! Changes to a prefix table: insertion, removal, growth.

use super::PrefixTable;
use super::entry::Entry;
use super::set::PrefixSet;
use super::table::{NODE_BITS, ROOT_BITS};
use super::trie::{NoRoom, Nodes, Path, TrieCell, cells_of_a_node};
use crate::address::{Address, Prefix};
use crate::map::Writer;
use crate::memory::{MemoryError, Placement};
use crate::value::Value;
use std::sync::Arc;

/// The only writer of a table; it replaces the table when it is full.
pub struct PrefixWriter<A: Address> {
    pub(crate) table: Arc<PrefixTable<A>>,
    pub(crate) nodes: Nodes,
    pub(crate) prefixes: PrefixSet<A>,
    pub(crate) placement: Placement,
}

impl<A: Address> Writer for PrefixWriter<A> {
    type Table = PrefixTable<A>;
    type Key = Prefix<A>;
    type Value = Value;

    fn table(&self) -> &Arc<PrefixTable<A>> {
        &self.table
    }

    fn len(&self) -> usize {
        self.prefixes.len()
    }

    fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.used() * cells_of_a_node(NODE_BITS) * size_of::<u32>();
        self.table.root.bytes() + nodes
    }

    fn insert(&mut self, prefix: Prefix<A>, value: Value) -> Result<Option<Value>, MemoryError> {
        let before = self.prefixes.get(prefix);
        let leaf = Entry::leaf(prefix.length(), value);
        loop {
            let trie = self.table.trie();
            match trie.insert(&mut self.nodes, path(prefix), leaf, before.is_none()) {
                Ok(()) => break,
                Err(NoRoom) => self.grow()?,
            }
        }
        self.prefixes.insert(prefix, value);
        Ok(before)
    }

    fn remove(&mut self, prefix: Prefix<A>) -> Option<Value> {
        let value = self.prefixes.remove(prefix)?;
        let around = self.prefixes.cover(prefix);
        let cover = around.map_or(Entry::NONE, |(prefix, value)| Entry::leaf(prefix.length(), value));
        self.table.trie().remove(&mut self.nodes, path(prefix), cover);
        Some(value)
    }

    fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Value)> {
        self.prefixes.iter()
    }
}

/// Nodes of a small table: 64 MiB, of which the kernel provides what is touched.
const FEWEST_NODES: usize = 1 << 16;

impl<A: Address> PrefixWriter<A> {
    /// The writer of a new table for about this many prefixes.
    pub(crate) fn with_capacity(
        prefixes: usize,
        placement: Placement,
    ) -> Result<PrefixWriter<A>, MemoryError> {
        let nodes = FEWEST_NODES.max(prefixes / 4);
        Ok(PrefixWriter {
            table: Arc::new(PrefixTable::new(nodes, placement)?),
            nodes: Nodes::default(),
            prefixes: PrefixSet::with_capacity(prefixes),
            placement,
        })
    }

    /// Replaces the table by a copy with room for twice as many nodes.
    #[cold]
    fn grow(&mut self) -> Result<(), MemoryError> {
        let nodes = FEWEST_NODES.max(self.table.nodes.len() / cells_of_a_node(NODE_BITS) * 2);
        if nodes > (u32::MAX >> 1) as usize {
            return Err(MemoryError::TooLarge { entries: self.len() });
        }
        let next = PrefixTable::new(nodes, self.placement)?;
        let used = self.nodes.used() * cells_of_a_node(NODE_BITS);
        let cells = self.table.root.iter().zip(next.root.iter());
        let cells = cells.chain(self.table.nodes[..used].iter().zip(next.nodes.iter()));
        for (old, new) in cells {
            let entry = old.entry();
            if entry != Entry::NONE {
                new.set(entry);
            }
        }
        self.table = Arc::new(next);
        Ok(())
    }
}

fn path<A: Address>(prefix: Prefix<A>) -> Path {
    Path {
        bits: prefix.address().to_high_bits(),
        length: u32::from(prefix.length()),
    }
}

const _: () = assert!(
    (32 - ROOT_BITS).is_multiple_of(NODE_BITS) && (128 - ROOT_BITS).is_multiple_of(NODE_BITS),
    "an address is a root index and whole node indices"
);
