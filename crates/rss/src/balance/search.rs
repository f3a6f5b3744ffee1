//! Complete search for the lowest possible fullest bucket, for few entries.

use super::assignment::{Assignment, largest_first};

/// Maximum number of entries with load. With more, the search would cover only a small part of the possibilities.
const MOST_ENTRIES: usize = 32;

/// Placements tried before the search stops, about ten milliseconds of work.
const MOST_PLACEMENTS: u32 = 200_000;

/// An assignment with a lower fullest bucket than `best`, if one was found; the search stops at `enough`. If the search
/// completed, it is the optimum.
///
/// Entries are placed largest first, each into the emptiest bucket first (R. E. Korf, "A complete anytime algorithm for
/// number partitioning", 1998), and buckets of equal load are tried only once.
pub(super) fn below<'a>(best: &Assignment<'a>, enough: u64) -> Option<Assignment<'a>> {
    let loads = best.entry_loads;
    let order = largest_first((0..loads.len()).filter(|&entry| loads[entry] > 0), loads);
    if order.len() > MOST_ENTRIES {
        return None;
    }
    let mut search = Search {
        loads,
        order: &order,
        enough,
        bucket_of: best.bucket_of.to_vec(),
        bucket_loads: vec![0; best.buckets()],
        lowest: best.fullest(),
        found: None,
        left: MOST_PLACEMENTS,
    };
    search.place(0, 0);
    Some(Assignment::new(loads, search.found?, best.buckets()))
}

struct Search<'a> {
    loads: &'a [u64],
    /// The entries to place, largest first.
    order: &'a [usize],
    enough: u64,
    /// By entry, its bucket; of those placed so far and of those without load.
    bucket_of: Vec<usize>,
    bucket_loads: Vec<u64>,
    /// The fullest bucket of the best assignment so far.
    lowest: u64,
    found: Option<Vec<usize>>,
    /// Remaining number of placements to try.
    left: u32,
}

impl Search<'_> {
    /// Places the entries from `at` on, given that the fullest bucket holds `fullest` so far.
    fn place(&mut self, at: usize, fullest: u64) {
        let Some(&entry) = self.order.get(at) else {
            self.lowest = fullest;
            self.found = Some(self.bucket_of.clone());
            return;
        };
        let mut buckets: Vec<usize> = (0..self.bucket_loads.len()).collect();
        buckets.sort_by_key(|&bucket| self.bucket_loads[bucket]);
        buckets.dedup_by_key(|bucket| self.bucket_loads[*bucket]);
        for bucket in buckets {
            let held = self.bucket_loads[bucket] + self.loads[entry];
            if held >= self.lowest || self.lowest <= self.enough || self.left == 0 {
                return;
            }
            self.left -= 1;
            self.bucket_of[entry] = bucket;
            self.bucket_loads[bucket] = held;
            self.place(at + 1, fullest.max(held));
            self.bucket_loads[bucket] -= self.loads[entry];
        }
    }
}
