//! Requests by prefix of their keys (`stats detail`): what is before the first delimiter.

use crate::shared::lock;
use corelane_proto::memcached::commands::Output;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Most prefixes, as in memcached.
const MOST: usize = 1 << 16;

/// Most bytes of all prefixes, since clients choose them.
const MOST_BYTES: usize = 1 << 20;

/// The counts of all workers.
#[derive(Debug, Default)]
pub(super) struct Prefixes(Mutex<Counts>);

/// In the order in which the prefixes came, so that a list of them goes on where it was.
#[derive(Debug, Default)]
struct Counts {
    counts: Vec<(Arc<[u8]>, [u64; 4])>,
    places: HashMap<Arc<[u8]>, usize>,
    /// Of the prefixes.
    bytes: usize,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// A key was read.
    Get {
        /// Whether it was there.
        hit: bool,
    },
    /// A value was sent.
    Set,
    /// A key was deleted, or was not there.
    Delete,
}

impl Prefixes {
    /// Counts a request about a key, if that has a prefix.
    pub(super) fn count(&self, key: &[u8], delimiter: u8, counted: Counted) {
        let Some(end) = key.iter().position(|byte| *byte == delimiter) else {
            return;
        };
        if let Some([gets, hits, sets, deletes]) = lock(&self.0).of(&key[..end]) {
            match counted {
                Counted::Get { hit } => {
                    *gets += 1;
                    *hits += u64::from(hit);
                }
                Counted::Set => *sets += 1,
                Counted::Delete => *deletes += 1,
            }
        }
    }

    /// Forgets all counts.
    pub(super) fn clear(&self) {
        *lock(&self.0) = Counts::default();
    }

    /// Writes a line for each of at most `most` prefixes from this place on; whether there are further ones.
    pub(super) fn list(&self, place: usize, most: usize, out: &mut impl Output) -> bool {
        let counts = &lock(&self.0).counts;
        let rest = counts.get(place..).unwrap_or_default();
        for (prefix, [gets, hits, sets, deletes]) in rest.iter().take(most) {
            out.put(b"PREFIX ");
            out.put(prefix);
            out.put(format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n").as_bytes());
        }
        rest.len() > most
    }
}

impl Counts {
    /// The counts of a prefix, unless it is a new one and there are too many.
    fn of(&mut self, prefix: &[u8]) -> Option<&mut [u64; 4]> {
        let place = match self.places.get(prefix) {
            Some(place) => *place,
            None => self.add(prefix)?,
        };
        Some(&mut self.counts[place].1)
    }

    fn add(&mut self, prefix: &[u8]) -> Option<usize> {
        let place = self.counts.len();
        if place == MOST || self.bytes + prefix.len() > MOST_BYTES {
            return None;
        }
        let prefix: Arc<[u8]> = prefix.into();
        self.bytes += prefix.len();
        self.places.insert(Arc::clone(&prefix), place);
        self.counts.push((prefix, [0; 4]));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_all_prefixes_are_bounded() {
        let prefixes = Prefixes::default();
        for number in 0..MOST {
            let key = format!("{number:0>200}:key");
            prefixes.count(key.as_bytes(), b':', Counted::Set);
        }
        let listed = |place| prefixes.list(place, 1, &mut Vec::new());
        let present = MOST_BYTES / 200;
        assert!(listed(present - 2) && !listed(present - 1));
    }
}
