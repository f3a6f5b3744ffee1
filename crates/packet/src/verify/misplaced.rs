//! Groups misplaced frames into rows, by flow.

use super::Queue;
use super::suspects::Suspects;
use corelane_rss::Tuple;
use std::collections::HashMap;

/// Maximum number of rows. It bounds memory, keeps the report readable, and keeps failed lookups within a CPU's private
/// cache.
const ROWS: usize = 16_384;

/// What the frames of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The expected hash.
    pub hash: u32,
    pub actual: Queue,
    /// The hash that the device reported.
    pub reported: Option<u32>,
    /// Distinguishes flows with the same expected hash: the hash of the other fields that a device could have used.
    pub detail: u32,
}

/// The first frame of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub entry: usize,
    pub suspects: Suspects,
    pub flow: Option<Tuple>,
}

/// The rows, and the frames of each.
#[derive(Debug, Default)]
pub(super) struct Misplaced {
    /// In the order of their first frames, with the number of frames of each.
    pub rows: Vec<(Key, Row, u64)>,
    /// Index of the row of a key.
    places: HashMap<Key, u32>,
    /// Frames that found no free row.
    pub left_off: u64,
}

impl Misplaced {
    /// Counts a frame; `first` is called for the first one of its row.
    pub fn count(&mut self, key: Key, first: impl FnOnce() -> Row) {
        if let Some(place) = self.places.get(&key) {
            let (_, _, frames) = &mut self.rows[*place as usize];
            *frames += 1;
        } else if self.rows.len() < ROWS {
            self.places.insert(key, self.rows.len() as u32);
            self.rows.push((key, first(), 1));
        } else {
            self.left_off += 1;
        }
    }
}
