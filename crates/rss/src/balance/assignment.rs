//! Assignment of entries to buckets, with the load of each bucket and its entries in order of load.

use std::cmp::Reverse;

/// An assignment of entries to buckets.
#[derive(Clone, Debug)]
pub(super) struct Assignment<'a> {
    /// By entry.
    pub(super) entry_loads: &'a [u64],
    /// By entry, the number of its bucket.
    pub(super) bucket_of: Vec<usize>,
    /// By bucket, the sum over its entries.
    pub(super) bucket_loads: Vec<u64>,
    /// By bucket, its entries that have load, ascending by load, then by number. Entries without load never need to
    /// move.
    pub(super) loaded: Vec<Vec<usize>>,
}

impl<'a> Assignment<'a> {
    pub(super) fn new(entry_loads: &'a [u64], bucket_of: Vec<usize>, buckets: usize) -> Assignment<'a> {
        let mut bucket_loads = vec![0; buckets];
        let mut loaded = vec![Vec::new(); buckets];
        for (entry, &bucket) in bucket_of.iter().enumerate() {
            bucket_loads[bucket] += entry_loads[entry];
            if entry_loads[entry] > 0 {
                loaded[bucket].push(entry);
            }
        }
        for entries in &mut loaded {
            entries.sort_unstable_by_key(|&entry| (entry_loads[entry], entry));
        }
        Assignment {
            entry_loads,
            bucket_of,
            bucket_loads,
            loaded,
        }
    }

    pub(super) fn buckets(&self) -> usize {
        self.bucket_loads.len()
    }

    /// The load of the fullest bucket.
    pub(super) fn fullest(&self) -> u64 {
        self.bucket_loads.iter().copied().max().unwrap_or(0)
    }

    /// The first bucket with this load.
    pub(super) fn bucket_of_load(&self, load: u64) -> usize {
        let mut loads = self.bucket_loads.iter();
        loads.position(|held| *held == load).unwrap_or(0)
    }

    pub(super) fn move_entry(&mut self, entry: usize, to: usize) {
        let (load, from) = (self.entry_loads[entry], self.bucket_of[entry]);
        self.bucket_of[entry] = to;
        self.bucket_loads[from] -= load;
        self.bucket_loads[to] += load;
        if load > 0 {
            let at = self.position(from, entry);
            self.loaded[from].remove(at);
            let at = self.position(to, entry);
            self.loaded[to].insert(at, entry);
        }
    }

    /// Position of an entry in its bucket's order, or the position it would have.
    fn position(&self, bucket: usize, entry: usize) -> usize {
        let key = (self.entry_loads[entry], entry);
        self.loaded[bucket].partition_point(|&other| (self.entry_loads[other], other) < key)
    }
}

/// Sorts these entries, largest first; equal ones by number.
pub(super) fn largest_first(entries: impl IntoIterator<Item = usize>, loads: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = entries.into_iter().collect();
    order.sort_unstable_by_key(|&entry| (Reverse(loads[entry]), entry));
    order
}

/// The fullest bucket that stays within `level` with `load` more; the first of equal ones.
pub(super) fn tightest_bucket(bucket_loads: &[u64], load: u64, level: u64) -> Option<usize> {
    let room = level.checked_sub(load)?;
    let fits = bucket_loads.iter().enumerate().filter(|(_, held)| **held <= room);
    fits.max_by_key(|(bucket, held)| (**held, Reverse(*bucket)))
        .map(|(bucket, _)| bucket)
}
