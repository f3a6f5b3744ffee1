//! Misplaced frames by flow: a key and what is known of its first frame enter; rows and what fits them leave.

use super::Queue;
use super::suspects::Suspects;
use corelane_rss::Tuple;
use std::collections::HashMap;

/// Rows kept: more would be no answer to read, memory must have a bound, and looking up what is not kept should not leave a
/// CPU's own cache.
const ROWS: usize = 16_384;

/// What the frames of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The hash by the rule.
    pub hash: u32,
    pub actual: Queue,
    /// The hash by the device.
    pub reported: Option<u32>,
    /// What tells apart flows that the rule hashes alike: the hash of what else a device could have taken.
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
    /// In the order in which their first frames came, and the frames of each.
    pub rows: Vec<(Key, Row, u64)>,
    /// Where the row of a key stands.
    places: HashMap<Key, u32>,
    /// Frames that no row was left for.
    pub left_off: u64,
}

impl Misplaced {
    /// Counts a frame; `first` is asked of the first of its kind.
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
