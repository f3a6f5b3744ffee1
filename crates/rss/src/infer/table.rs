//! From hashes and queues to the indirection table: pairs enter; the shortest table that explains them leaves.

use super::fit::EVIDENCE_BITS;
use crate::table::IndirectionTable;
use serde::Serialize;

/// An indirection table as far as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InferredTable {
    /// Entries after which it repeats: its size, or a part of it where it repeats, which no packet can tell.
    pub period: usize,
    /// The queue of each entry; unknown where no flow fell.
    pub entries: Vec<Option<u16>>,
    /// Entries that no flow fell on.
    pub unseen: usize,
}

/// The shortest table that gives every hash its queue, if there is one and it is no coincidence.
pub(super) fn of_hashes(pairs: impl Iterator<Item = (u32, u16)>) -> Option<InferredTable> {
    let pairs: Vec<_> = pairs.collect();
    let bits_a_pair = surprise(&pairs);
    (0..=IndirectionTable::LARGEST.ilog2()).find_map(|bits| {
        let mut entries: Vec<Option<u16>> = vec![None; 1 << bits];
        let mut repeated = 0_u32;
        for (hash, queue) in &pairs {
            let entry = &mut entries[*hash as usize & ((1 << bits) - 1)];
            match entry {
                Some(seen) if *seen != *queue => return None,
                Some(_) => repeated += 1,
                None => *entry = Some(*queue),
            }
        }
        // One queue alone is a table of one entry, for all that is seen.
        let enough = f64::from(repeated) * bits_a_pair >= EVIDENCE_BITS as f64;
        enough.then(|| InferredTable {
            period: entries.len(),
            unseen: entries.iter().filter(|entry| entry.is_none()).count(),
            entries,
        })
    })
}

/// How much it says, in bits, that two flows have one queue: the negated logarithm of the chance.
fn surprise(pairs: &[(u32, u16)]) -> f64 {
    let mut counts = std::collections::HashMap::<u16, u32>::new();
    for (_, queue) in pairs {
        *counts.entry(*queue).or_default() += 1;
    }
    let shares = counts
        .values()
        .map(|count| f64::from(*count) / pairs.len() as f64);
    -shares.map(|share| share * share).sum::<f64>().log2()
}
