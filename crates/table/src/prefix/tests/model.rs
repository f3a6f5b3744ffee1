//! Checks the protocol in every interleaving of one reader and the writer, over a trie of one bit per level. The code
//! is the production code; the cells are those of the model checker.

use super::super::entry::Entry;
use super::super::trie::{Nodes, Path, Trie, TrieCell};
use crate::cuckoo::ModelWord;
use crate::value::Value;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

struct ModelCell(AtomicU32);

impl TrieCell for ModelCell {
    fn entry(&self) -> Entry {
        Entry(self.0.load(Ordering::Acquire))
    }

    fn set(&self, entry: Entry) {
        self.0.store(entry.0, Ordering::Release);
    }
}

type ModelTrie<'a> = Trie<'a, ModelCell, ModelWord, 1, 1>;

struct Table {
    root: Vec<ModelCell>,
    nodes: Vec<ModelCell>,
    reuses: ModelWord,
}

/// The prefix of these bits, written as text.
fn path(bits: &str) -> Path {
    let length = bits.len() as u32;
    Path {
        bits: u128::from_str_radix(bits, 2).unwrap() << (128 - length),
        length,
    }
}

fn leaf(bits: &str, value: u16) -> Entry {
    Entry::leaf(bits.len() as u8, Value::new(value).unwrap())
}

/// Runs `write` over the `present` prefixes while another thread looks an address up, in every interleaving.
fn check(
    present: &'static [(&'static str, u16)],
    asked: &'static str,
    right: fn(Option<u16>) -> bool,
    write: fn(ModelTrie<'_>, &mut Nodes),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let cells = |count| (0..count).map(|_| ModelCell(AtomicU32::new(0))).collect();
        let table = Arc::new(Table {
            root: cells(2),
            nodes: cells(4),
            reuses: ModelWord::new(0),
        });
        let mut nodes = Nodes::default();
        let trie = ModelTrie::new(&table.root, &table.nodes, &table.reuses);
        for (bits, value) in present {
            trie.insert(&mut nodes, path(bits), leaf(bits, *value), true)
                .unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let trie = ModelTrie::new(&table.root, &table.nodes, &table.reuses);
                let answer = trie.find(path(asked).bits).value().map(Value::get);
                assert!(right(answer), "{answer:?}");
            })
        };
        write(trie, &mut nodes);
        reader.join().unwrap();
    });
}

#[test]
fn a_prefix_that_comes_shows_the_shorter_one_or_itself() {
    check(
        &[("0", 1)],
        "000",
        |answer| matches!(answer, Some(1 | 2)),
        |trie, nodes| {
            trie.insert(nodes, path("000"), leaf("000", 2), true).unwrap();
        },
    );
}

#[test]
fn a_prefix_that_goes_shows_itself_or_the_shorter_one() {
    check(
        &[("0", 1), ("000", 2)],
        "000",
        |answer| matches!(answer, Some(1 | 2)),
        |trie, nodes| {
            trie.remove(nodes, path("000"), leaf("0", 1));
        },
    );
}

#[test]
fn a_node_that_serves_other_addresses_later_misleads_no_reader_of_the_first() {
    check(
        &[("0", 1), ("000", 2)],
        "000",
        |answer| matches!(answer, Some(1 | 2)),
        |trie, nodes| {
            trie.remove(nodes, path("000"), leaf("0", 1));
            trie.insert(nodes, path("111"), leaf("111", 3), true).unwrap();
        },
    );
}

#[test]
fn a_neighbour_of_what_changes_keeps_its_value() {
    check(
        &[("0", 1), ("001", 2)],
        "001",
        |answer| answer == Some(2),
        |trie, nodes| {
            trie.insert(nodes, path("000"), leaf("000", 3), true).unwrap();
            trie.insert(nodes, path("0"), leaf("0", 4), false).unwrap();
            trie.remove(nodes, path("000"), leaf("0", 4));
        },
    );
}
