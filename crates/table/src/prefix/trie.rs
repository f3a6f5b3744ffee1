//! The trie and its protocol: prefixes are expanded to cells, and a lookup reads one cell per level.
//!
//! A root of 2^ROOT cells is indexed by the first bits of an address; nodes of 2^NODE cells by the bits after them. A
//! cell holds the value of the longest prefix over all of its addresses, or a link to a node with longer prefixes
//! (Gupta, Lin and McKeown, "Routing lookups in hardware at memory access speeds", DIR-24-8, with as many levels as
//! addresses need).
//!
//! The rules for readers and the one writer, which [`super::tests`] checks in every interleaving of small cases:
//!
//! - A cell is stored atomically, so an address shows its old or its new value.
//! - A node is filled before it is linked.
//! - An unlinked node is reused only after the reuse count was incremented. A reader loads the count before it reads a
//!   link and after it read the node, and retries if it changed.

use super::entry::Entry;
use crate::memory::Word;
use std::sync::atomic::{AtomicU32, Ordering};

/// A cell that one writer stores and any reader loads, with release and acquire ordering. The model checker's is one too.
pub(crate) trait TrieCell {
    fn entry(&self) -> Entry;
    fn set(&self, entry: Entry);
}

impl TrieCell for AtomicU32 {
    #[inline(always)]
    fn entry(&self) -> Entry {
        Entry(self.load(Ordering::Acquire))
    }

    fn set(&self, entry: Entry) {
        self.store(entry.0, Ordering::Release);
    }
}

/// Where the cells of a trie are.
pub(crate) struct Trie<'a, C, N, const ROOT: u32, const NODE: u32> {
    root: &'a [C],
    nodes: &'a [C],
    reuses: &'a N,
}

/// Cells of a node.
pub(crate) const fn cells_of_a_node(bits: u32) -> usize {
    1 << bits
}

impl<'a, C: TrieCell, N: Word, const ROOT: u32, const NODE: u32> Trie<'a, C, N, ROOT, NODE> {
    /// The trie in these cells: 2^ROOT of the root, 2^NODE of each node.
    #[inline(always)]
    pub(crate) fn new(root: &'a [C], nodes: &'a [C], reuses: &'a N) -> Self {
        Trie { root, nodes, reuses }
    }

    /// The count of reuses.
    #[inline(always)]
    pub(crate) fn reuses(&self) -> u64 {
        self.reuses.get()
    }

    /// The cell of an address in the root. The address is the highest bits of `bits`.
    #[inline(always)]
    pub(crate) fn root_cell(&self, bits: u128) -> &'a C {
        &self.root[(bits >> (128 - ROOT)) as usize]
    }

    /// The cell of an address in a node of the `level`th level, the root being level 0.
    #[inline(always)]
    pub(crate) fn node_cell(&self, node: u32, level: u32, bits: u128) -> &'a C {
        let index = (bits << (ROOT + (level - 1) * NODE) >> (128 - NODE)) as usize;
        &self.nodes[node as usize * cells_of_a_node(NODE) + index]
    }

    fn cells(&self, node: u32) -> &'a [C] {
        let first = node as usize * cells_of_a_node(NODE);
        &self.nodes[first..first + cells_of_a_node(NODE)]
    }

    /// The value and length of the longest prefix that contains the address.
    pub(crate) fn find(&self, bits: u128) -> Entry {
        loop {
            let before = self.reuses();
            let mut entry = self.root_cell(bits).entry();
            let mut level = 0;
            while let Some(node) = entry.node() {
                level += 1;
                // A node that was reused may be linked elsewhere, and deeper than an address goes.
                if ROOT + level * NODE > 128 {
                    break;
                }
                entry = self.node_cell(node, level, bits).entry();
            }
            if self.reuses() == before {
                return entry;
            }
        }
    }

    /// Whether every link leads to an existing node, no two links to the same one, and no path is longer than an address of
    /// these bits. True of every trie that this program built; to be checked for one that was read from a file.
    pub(crate) fn is_sound(&self, address_bits: u32) -> bool {
        let mut linked = vec![false; self.nodes.len() / cells_of_a_node(NODE)];
        let mut rows = vec![(self.root, ROOT)];
        while let Some((row, last_bit)) = rows.pop() {
            for node in row.iter().filter_map(|cell| cell.entry().node()) {
                let Some(linked) = linked.get_mut(node as usize) else {
                    return false;
                };
                if std::mem::replace(linked, true) || last_bit + NODE > address_bits {
                    return false;
                }
                rows.push((self.cells(node), last_bit + NODE));
            }
        }
        true
    }
}

/// The writer's state of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// For each node that was ever used, the number of prefixes that pass through it.
    pub(crate) passing: Vec<u32>,
    free: Vec<u32>,
}

impl Nodes {
    /// The nodes with these numbers of passing prefixes; those with none are free.
    pub(crate) fn of_passing(passing: Vec<u32>) -> Nodes {
        let nodes = (0..).zip(&passing);
        let free = nodes
            .filter(|(_, passing)| **passing == 0)
            .map(|(node, _)| node)
            .collect();
        Nodes { passing, free }
    }

    /// The number of nodes that were ever used.
    pub(crate) fn used(&self) -> usize {
        self.passing.len()
    }
}

/// Too few nodes are left for the prefix.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// A prefix as the trie sees it: the highest `length` bits of `bits`; the others are zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) bits: u128,
    pub(crate) length: u32,
}

/// Operations of the writer only.
impl<C: TrieCell, N: Word, const ROOT: u32, const NODE: u32> Trie<'_, C, N, ROOT, NODE> {
    /// Maps all addresses of a prefix, except those of longer prefixes, to `leaf`, whose length is the path's. `new`: the
    /// trie does not have the prefix yet.
    pub(crate) fn insert(&self, nodes: &mut Nodes, path: Path, leaf: Entry, new: bool) -> Result<(), NoRoom> {
        let unused = self.nodes.len() / cells_of_a_node(NODE) - nodes.used();
        let linked = self.links(path).count();
        let depth = depth::<ROOT, NODE>(path.length);
        if linked + nodes.free.len() + unused < depth as usize {
            return Err(NoRoom);
        }
        let mut cell = self.root_cell(path.bits);
        for level in 1..=depth {
            let entry = cell.entry();
            let node = entry.node().unwrap_or_else(|| {
                let node = self.filled_node(nodes, entry);
                cell.set(Entry::link(node));
                node
            });
            nodes.passing[node as usize] += u32::from(new);
            cell = self.node_cell(node, level, path.bits);
        }
        self.paint(path, leaf, &|entry| entry.rank() <= leaf.rank());
        Ok(())
    }

    /// Removes a prefix: its addresses map to `cover`, the entry of the longest prefix that contains it.
    pub(crate) fn remove(&self, nodes: &mut Nodes, path: Path, cover: Entry) {
        self.paint(path, cover, &|entry| entry.rank() == path.length + 1);
        let links: Vec<_> = self.links(path).collect();
        for (cell, node) in links.into_iter().rev() {
            let passing = &mut nodes.passing[node as usize];
            *passing = passing.saturating_sub(1);
            if *passing == 0 {
                // No prefix here is longer than the parent cell's, so all cells are equal.
                cell.set(self.cells(node)[0].entry());
                nodes.free.push(node);
            }
        }
    }

    /// The nodes on the path of a prefix from the root, each with the cell that links it.
    fn links(&self, path: Path) -> impl Iterator<Item = (&C, u32)> {
        let mut cell = self.root_cell(path.bits);
        (1..=depth::<ROOT, NODE>(path.length)).map_while(move |level| {
            let (linking, node) = (cell, cell.entry().node()?);
            cell = self.node_cell(node, level, path.bits);
            Some((linking, node))
        })
    }

    /// A node whose cells are all `entry`, not linked yet.
    fn filled_node(&self, nodes: &mut Nodes, entry: Entry) -> u32 {
        let node = nodes.free.pop().map_or_else(
            || {
                nodes.passing.push(0);
                nodes.passing.len() as u32 - 1
            },
            |node| {
                self.reuses.set(self.reuses.get().wrapping_add(1));
                node
            },
        );
        for cell in self.cells(node) {
            cell.set(entry);
        }
        node
    }

    /// Stores `entry` in the cells of a prefix, and below them, that hold a leaf of which `over` is true.
    fn paint(&self, path: Path, entry: Entry, over: &impl Fn(Entry) -> bool) {
        let depth = depth::<ROOT, NODE>(path.length);
        let (mut row, mut first_bit, mut width) = (self.root, 0, ROOT);
        for _ in 0..depth {
            let index = (path.bits << first_bit >> (128 - width)) as usize;
            let Some(node) = row[index].entry().node() else {
                return;
            };
            (row, first_bit, width) = (self.cells(node), first_bit + width, NODE);
        }
        let index = (path.bits << first_bit >> (128 - width)) as usize;
        let count = 1 << (first_bit + width - path.length);
        self.paint_all(&row[index..index + count], entry, over);
    }

    fn paint_all(&self, cells: &[C], entry: Entry, over: &impl Fn(Entry) -> bool) {
        for cell in cells {
            let old = cell.entry();
            match old.node() {
                Some(node) => self.paint_all(self.cells(node), entry, over),
                None if over(old) => cell.set(entry),
                None => {}
            }
        }
    }
}

/// The number of nodes on the path of a prefix of this length.
fn depth<const ROOT: u32, const NODE: u32>(length: u32) -> u32 {
    length.saturating_sub(ROOT).div_ceil(NODE)
}
