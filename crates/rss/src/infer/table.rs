//! Infers the shortest indirection table that explains pairs of hash and queue.

use super::fit::EVIDENCE_BITS;
use crate::table::IndirectionTable;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// An indirection table as far as it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InferredTable {
    /// Period in entries: the size of the table, or a fraction if it repeats. Packets cannot distinguish the two.
    pub period: usize,
    /// The queue of each entry; unknown if no flow selected it.
    pub entries: Vec<Option<u16>>,
    /// Entries that no flow selected.
    pub unseen: usize,
}

/// The shortest table that gives every hash its queue, if there is one and it is no coincidence.
pub(super) fn of_hashes(pairs: impl Iterator<Item = (u32, u16)>) -> Option<InferredTable> {
    let pairs: Vec<_> = pairs.collect();
    let bits_a_pair = surprise(&pairs);
    sizes().find_map(|size| {
        let mut entries: Vec<Option<u16>> = vec![None; size];
        let mut repeated = 0_u32;
        for (hash, queue) in &pairs {
            let entry = &mut entries[*hash as usize % size];
            match entry {
                Some(seen) if *seen != *queue => return None,
                Some(_) => repeated += 1,
                None => *entry = Some(*queue),
            }
        }
        // A single queue looks like a table of one entry.
        let enough = f64::from(repeated) * bits_a_pair >= EVIDENCE_BITS as f64;
        enough.then(|| InferredTable {
            period: entries.len(),
            unseen: entries.iter().filter(|entry| entry.is_none()).count(),
            entries,
        })
    })
}

/// The sizes of tables that are tried, ascending: powers of two, and three times those (devices have 48 and 192 entries).
fn sizes() -> impl Iterator<Item = usize> {
    (1..=IndirectionTable::LARGEST).filter(|size| {
        let mut factors = [1_usize, 3].into_iter().filter(|factor| size % factor == 0);
        factors.any(|factor| (size / factor).is_power_of_two())
    })
}

/// Whether every table that is tried gives some pair another queue: a packet's queue then depends on more than its hash. The
/// entries of a smaller table hold several of those of one of the two largest.
pub(super) fn none_fits(pairs: impl Iterator<Item = (u32, u16)> + Clone) -> bool {
    let largest = [IndirectionTable::LARGEST, IndirectionTable::LARGEST / 4 * 3];
    largest.into_iter().all(|size| {
        let mut entries: Vec<Option<u16>> = vec![None; size];
        pairs
            .clone()
            .any(|(hash, queue)| *entries[hash as usize % size].get_or_insert(queue) != queue)
    })
}

/// Indices of at most this many pairs whose removal leaves a consistent table. It is the shortest one for which no two
/// removed pairs share both their queue and their entry in a table twice as large; otherwise that larger table is more
/// likely. None if there is no such table.
pub(super) fn contradicting(pairs: &[(u32, u16)], most: usize) -> Vec<usize> {
    let bits_a_pair = surprise(pairs);
    for size in sizes() {
        let (set_aside, repeated) = minorities(pairs, size);
        let mut of_twice = HashSet::new();
        let alone = set_aside.iter().all(|place| {
            let (hash, queue) = pairs[*place];
            of_twice.insert((hash as usize % (2 * size), queue))
        });
        // Choosing which pairs to set aside makes a coincidence more likely.
        let chosen = set_aside.len() as f64 * f64::from(pairs.len().ilog2() + 1);
        let evidence = repeated as f64 * bits_a_pair - chosen;
        if alone && set_aside.len() <= most && evidence >= EVIDENCE_BITS as f64 {
            return set_aside;
        }
    }
    Vec::new()
}

/// In a table of this size: the indices of pairs whose queue differs from the majority of their entry (or
/// ties with others), and the number of pairs that repeat the queue of another pair of their entry.
fn minorities(pairs: &[(u32, u16)], size: usize) -> (Vec<usize>, usize) {
    let mut entries: Vec<HashMap<u16, Vec<usize>>> = vec![HashMap::new(); size];
    for (place, (hash, queue)) in pairs.iter().enumerate() {
        let entry = &mut entries[*hash as usize % size];
        entry.entry(*queue).or_default().push(place);
    }
    let (mut minorities, mut repeated) = (Vec::new(), 0);
    for entry in entries {
        let most = entry.values().map(Vec::len).max().unwrap_or(0);
        let several = entry.values().filter(|places| places.len() == most).count() > 1;
        for places in entry.into_values() {
            if places.len() < most || several {
                minorities.extend(places);
            } else {
                repeated += most - 1;
            }
        }
    }
    (minorities, repeated)
}

/// Information, in bits, of two flows sharing a queue: the negated logarithm of the probability.
fn surprise(pairs: &[(u32, u16)]) -> f64 {
    let mut counts = HashMap::<u16, u32>::new();
    for (_, queue) in pairs {
        *counts.entry(*queue).or_default() += 1;
    }
    let shares = counts
        .values()
        .map(|count| f64::from(*count) / pairs.len() as f64);
    -shares.map(|share| share * share).sum::<f64>().log2()
}
