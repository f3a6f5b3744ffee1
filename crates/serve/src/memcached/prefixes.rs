//! Requests by prefix of their keys (`stats detail`): what is before the first delimiter.

use crate::shared::lock;
use corelane_proto::memcached::commands::Output;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Most prefixes, as in memcached.
const MOST: usize = 1 << 16;

/// The counts of all workers.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    counts: Mutex<BTreeMap<Box<[u8]>, [u64; 4]>>,
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
        let mut counts = lock(&self.counts);
        if counts.len() == MOST && !counts.contains_key(&key[..end]) {
            return;
        }
        let [gets, hits, sets, deletes] = counts.entry(key[..end].into()).or_default();
        match counted {
            Counted::Get { hit } => {
                *gets += 1;
                *hits += u64::from(hit);
            }
            Counted::Set => *sets += 1,
            Counted::Delete => *deletes += 1,
        }
    }

    /// Forgets all counts.
    pub(super) fn clear(&self) {
        lock(&self.counts).clear();
    }

    /// Writes a line per prefix.
    pub(super) fn dump(&self, out: &mut impl Output) {
        for (prefix, [gets, hits, sets, deletes]) in &*lock(&self.counts) {
            out.put(b"PREFIX ");
            out.put(prefix);
            out.put(format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n").as_bytes());
        }
    }
}
