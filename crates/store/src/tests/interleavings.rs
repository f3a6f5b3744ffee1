//! Checks readers in every interleaving with the owner that has up to three preemptions. Index, versions, layout of items and the reader
//! are the production code; the words are those of the model checker. Segments have two buckets, so that stripes are two, and an item's
//! key and header four words.

use crate::NotRead;
use crate::bucket::SLOTS;
use crate::index::{Index, Need, set_accesses};
use crate::item::{Attributes, HEADER, Head, Marks, mark};
use crate::memory::{WORD, Word, Words};
use crate::reader::View;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

const SHIFT: u32 = 7;
const SEGMENTS: usize = 6;
const WORDS: usize = SEGMENTS << SHIFT >> 3;
/// Of the index from the start on, of a split, of overflow buckets.
const INDEX_SEGMENTS: [u32; 3] = [0, 1, 2];
/// Places of items.
const PLACES: [usize; 4] = [384, 432, 512, 560];
/// In a stripe of its own each; the third is in that of the first, and leaves its bucket when that is split.
const KEYS: [(u64, &[u8; 6]); 3] = [(0, b"first-"), (1, b"second"), (2, b"third-")];

struct ModelWord(AtomicU64);

impl Word for ModelWord {
    fn new(word: u64) -> Self {
        ModelWord(AtomicU64::new(word))
    }

    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, word: u64, order: Ordering) {
        self.0.store(word, order);
    }

    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

/// The owner's memory. What it reads it knows, and a store that changes nothing is none: the model has fewer steps.
struct OwnerWords {
    known: Vec<u64>,
    words: Arc<Vec<ModelWord>>,
}

impl Words for OwnerWords {
    fn words<const COUNT: usize>(&self, at: usize) -> [u64; COUNT] {
        std::array::from_fn(|word| self.known[at / WORD + word])
    }

    fn set_word(&mut self, at: usize, word: u64) {
        if std::mem::replace(&mut self.known[at / WORD], word) != word {
            self.words[at / WORD].store(word.to_le(), Ordering::Relaxed);
        }
    }
}

struct Owner {
    memory: OwnerWords,
    index: Index<ModelWord>,
    /// Set when a flush is acknowledged.
    acknowledged: Arc<AtomicU64>,
}

impl Owner {
    fn new() -> Self {
        let words = (0..WORDS).map(|_| ModelWord::new(0)).collect();
        let mut index = Index::new(INDEX_SEGMENTS[0], SHIFT, SEGMENTS);
        index.add(INDEX_SEGMENTS[2], Need::Overflow);
        Self {
            memory: OwnerWords {
                known: vec![0; WORDS],
                words: Arc::new(words),
            },
            index,
            acknowledged: Arc::default(),
        }
    }

    /// Writes an item that is not in the index: its version is its cas and both words of its value.
    fn write(&mut self, place: usize, key: usize, version: u64) {
        let bytes = KEYS[key].1;
        let key = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.memory.set_word(PLACES[place] + 24, key << 16);
        self.write_version(place, version);
    }

    fn write_version(&mut self, place: usize, version: u64) {
        let attributes = Attributes {
            cas: version,
            marks: Marks::FETCHED,
            ..Attributes::default()
        };
        let head = Head {
            attributes,
            value: 16,
            key: 6,
        };
        head.write(&mut self.memory, PLACES[place]);
        for word in [32, 40] {
            self.memory.set_word(PLACES[place] + word, version);
        }
    }

    /// Makes a written item found, with all accesses.
    fn insert(&mut self, place: usize, key: usize) {
        let hash = KEYS[key].0;
        self.index.insert(&mut self.memory, hash, PLACES[place]);
        let (slot, _) = self
            .index
            .find(&self.memory, hash, |at| at == PLACES[place])
            .unwrap();
        set_accesses(&mut self.memory, slot, 3);
    }

    fn add(&mut self, place: usize, key: usize, version: u64) {
        self.write(place, key, version);
        self.insert(place, key);
    }

    fn overwrite(&mut self, place: usize, key: usize, version: u64) {
        self.index.published.begin(KEYS[key].0);
        self.write_version(place, version);
        self.index.published.end(KEYS[key].0);
    }

    fn remove(&mut self, place: usize, key: usize) {
        let hash = KEYS[key].0;
        let (slot, at) = self
            .index
            .find(&self.memory, hash, |at| at == PLACES[place])
            .unwrap();
        self.index.remove(&mut self.memory, hash, slot);
        mark(&mut self.memory, at, Marks::DEAD);
    }

    /// Copies an item to another place, where it is found from now on.
    fn relocate(&mut self, key: usize, from: usize, to: usize) {
        let hash = KEYS[key].0;
        for word in 0..6 {
            let copied = self.memory.word(PLACES[from] + word * WORD);
            self.memory.set_word(PLACES[to] + word * WORD, copied);
        }
        let (slot, _) = self
            .index
            .find(&self.memory, hash, |at| at == PLACES[from])
            .unwrap();
        self.index.relocate(&mut self.memory, hash, slot, PLACES[to]);
        mark(&mut self.memory, PLACES[from], Marks::DEAD);
    }

    /// Fills the bucket of a key up to its last slot, with other tags.
    fn crowd(&mut self, key: usize) {
        for other in 1..SLOTS as u64 {
            let hash = KEYS[key].0 | other << 20;
            self.index.insert(&mut self.memory, hash, PLACES[1]);
        }
    }
}

/// Runs `write` while another thread tries to read a key once, in every interleaving. `right` says whether the version that is read may
/// be, or none.
fn check(setup: fn(&mut Owner), key: usize, right: fn(Result<u64, NotRead>) -> bool, write: fn(&mut Owner)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let mut owner = Owner::new();
        setup(&mut owner);
        let (words, published) = (
            Arc::clone(&owner.memory.words),
            Arc::clone(&owner.index.published),
        );
        let acknowledged = Arc::clone(&owner.acknowledged);
        let reader = thread::spawn(move || {
            let is_flushed = acknowledged.load(Ordering::Acquire) == 1;
            let view = View {
                words: &words,
                published: &published,
            };
            let mut buffer = Vec::new();
            let (hash, bytes) = KEYS[key];
            let found = view.attempt((hash, bytes), 1, &|_| true, &mut buffer);
            let read = found.map(|found| {
                let version = found.attributes.cas;
                let value = [version.to_ne_bytes(); 2].concat();
                assert_eq!(buffer[found.start..found.end], value, "a value of one version");
                version
            });
            assert!(right(read), "{read:?}");
            assert!(!is_flushed || read.is_err(), "flushed before: {read:?}");
        });
        write(&mut owner);
        reader.join().unwrap();
    });
}

#[test]
fn an_item_of_the_model_is_read_as_it_lies_in_memory() {
    assert_eq!(HEADER + KEYS[0].1.len(), 32);
    check(|owner| owner.add(0, 0, 1), 0, |read| read == Ok(1), |_| {});
    check(
        |owner| owner.add(0, 0, 1),
        1,
        |read| read == Err(NotRead::Absent),
        |_| {},
    );
}

#[test]
fn an_item_that_is_overwritten_shows_the_old_or_the_new_value() {
    check(
        |owner| owner.add(0, 0, 1),
        0,
        |read| matches!(read, Ok(1 | 2) | Err(NotRead::Changing)),
        |owner| owner.overwrite(0, 0, 2),
    );
}

#[test]
fn memory_that_is_used_again_for_another_key_shows_nothing_of_it() {
    check(
        |owner| owner.add(0, 0, 1),
        0,
        |read| matches!(read, Ok(1) | Err(NotRead::Changing | NotRead::Absent)),
        |owner| {
            owner.remove(0, 0);
            owner.add(0, 1, 2);
        },
    );
}

#[test]
fn memory_that_is_used_again_for_the_same_key_shows_it_only_when_it_is_committed() {
    check(
        |owner| owner.add(0, 0, 1),
        0,
        |read| matches!(read, Ok(1) | Err(NotRead::Changing | NotRead::Absent)),
        |owner| {
            owner.remove(0, 0);
            owner.write(0, 0, 2);
        },
    );
}

#[test]
fn an_item_that_is_moved_is_found_throughout() {
    check(
        |owner| owner.add(0, 0, 1),
        0,
        |read| matches!(read, Ok(1) | Err(NotRead::Changing)),
        |owner| {
            owner.relocate(0, 0, 2);
            owner.write(0, 1, 2);
        },
    );
}

#[test]
fn an_item_is_found_while_its_bucket_is_split() {
    let setup = |owner: &mut Owner| {
        owner.add(0, 0, 1);
        owner.add(1, 2, 2);
        owner.index.add(INDEX_SEGMENTS[1], Need::Bucket);
    };
    for (key, right) in [
        (
            0,
            (|read| matches!(read, Ok(1) | Err(NotRead::Changing))) as fn(_) -> bool,
        ),
        (2, |read| matches!(read, Ok(2) | Err(NotRead::Changing))),
    ] {
        check(setup, key, right, |owner| owner.index.split(&mut owner.memory));
    }
}

#[test]
fn an_overflow_bucket_that_another_chain_takes_shows_nothing_of_it() {
    check(
        |owner| {
            owner.crowd(0);
            owner.index.insert(&mut owner.memory, 1 << 19, PLACES[1]);
            owner.add(0, 0, 1);
            owner.crowd(1);
            owner.index.insert(&mut owner.memory, 1 | 1 << 19, PLACES[1]);
        },
        0,
        |read| matches!(read, Ok(1) | Err(NotRead::Changing | NotRead::Absent)),
        |owner| {
            owner.remove(0, 0);
            // With the tag and the key of what is asked for, but of another stripe.
            owner.write(2, 0, 2);
            owner.index.insert(&mut owner.memory, 1, PLACES[2]);
            let (slot, _) = owner.index.find(&owner.memory, 1, |at| at == PLACES[2]).unwrap();
            set_accesses(&mut owner.memory, slot, 3);
        },
    );
}

#[test]
fn nothing_that_was_flushed_is_read_after_that_was_acknowledged() {
    check(
        |owner| owner.add(0, 0, 1),
        0,
        |read| matches!(read, Ok(1) | Err(NotRead::Changing | NotRead::Absent)),
        |owner| {
            owner.index.published.close_from(Some(0));
            owner.acknowledged.store(1, Ordering::Release);
            owner.remove(0, 0);
            owner.index.published.close_from(None);
        },
    );
}
