//! Selects the entries to move out of a bucket above the level: as few as possible, then as light as possible.

use super::assignment::Assignment;

/// Sets of entries tried for one bucket: enough for all pairs and triples of forty entries, and for some of the larger
/// sets.
const SETS: u32 = 10_000;

/// The minimum number of entries that must leave a bucket so that it meets the level, counted on its largest entries.
pub(super) fn fewest(present: &Assignment<'_>, bucket: usize, level: u64) -> usize {
    let mut held = present.bucket_loads[bucket];
    let mut leaving = 0;
    for &entry in present.loaded[bucket].iter().rev() {
        if held <= level {
            break;
        }
        held -= present.entry_loads[entry];
        leaving += 1;
    }
    leaving
}

/// The lightest set found of the minimum number of entries plus `more`: it is the easiest to place. None if the bucket
/// meets the level.
pub(super) fn lightest(present: &Assignment<'_>, bucket: usize, level: u64, more: usize) -> Vec<usize> {
    let excess = present.bucket_loads[bucket].saturating_sub(level);
    if excess == 0 {
        return Vec::new();
    }
    let entries = &present.loaded[bucket];
    let count = (fewest(present, bucket, level) + more).min(entries.len());
    let mut search = Search {
        loads: entries.iter().map(|&entry| present.entry_loads[entry]).collect(),
        excess,
        chosen: Vec::new(),
        best: (entries.len() - count..entries.len()).collect(),
        least_weight: u64::MAX,
        left: SETS,
    };
    search.choose(entries.len(), count, 0);
    search.best.into_iter().map(|at| entries[at]).collect()
}

struct Search {
    /// Of the bucket's entries, ascending.
    loads: Vec<u64>,
    /// The minimum load of a set.
    excess: u64,
    /// Indices of the entries chosen so far.
    chosen: Vec<usize>,
    /// The lightest set, and its load.
    best: Vec<usize>,
    least_weight: u64,
    /// Sets that may still be tried.
    left: u32,
}

impl Search {
    /// Chooses `count` more entries from before index `end`; those chosen so far have the load `weight`.
    fn choose(&mut self, end: usize, count: usize, weight: u64) {
        if self.left == 0 || self.least_weight == self.excess {
            return;
        }
        self.left -= 1;
        let needed = self.excess.saturating_sub(weight);
        if count == 1 {
            let lightest = self.loads[..end].partition_point(|load| *load < needed);
            if lightest < end && weight + self.loads[lightest] < self.least_weight {
                self.least_weight = weight + self.loads[lightest];
                self.best.clone_from(&self.chosen);
                self.best.push(lightest);
            }
            return;
        }
        for at in (count - 1..end).rev() {
            // The others chosen are no heavier than this one.
            if self.loads[at].saturating_mul(count as u64) < needed {
                return;
            }
            self.chosen.push(at);
            self.choose(at, count - 1, weight + self.loads[at]);
            self.chosen.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(mut leaving: Vec<usize>) -> Vec<usize> {
        leaving.sort_unstable();
        leaving
    }

    #[test]
    fn the_lightest_of_the_smallest_sets_leaves() {
        let loads = [42, 3, 28, 98, 56, 12];
        let present = Assignment::new(&loads, vec![0; 6], 1);
        let leaving = |level, more| places(lightest(&present, 0, level, more));
        assert_eq!(leaving(160, 0), [3], "98 alone is enough for 79");
        assert_eq!(
            leaving(160, 1),
            [2, 4],
            "28 and 56 are lighter than 98 and any other"
        );
        assert_eq!(leaving(0, 1), [0, 1, 2, 3, 4, 5], "no more than there are");
        assert!(leaving(239, 2).is_empty(), "nothing must leave");
    }
}
