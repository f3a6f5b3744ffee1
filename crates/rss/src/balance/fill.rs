//! Fills buckets one after the other to a level, each as exactly as possible. This finds a low level if every bucket
//! has room for only a few entries, so that exchanging single entries is too coarse.

use super::assignment::{Assignment, largest_first};

/// Sets of entries tried for one bucket. A tenth of it leaves a Zipf load over 36 buckets three percent fuller.
const SETS_OF_A_BUCKET: usize = 10_000;

/// Sets of entries tried for one level, about ten milliseconds of work: with many buckets, fewer are tried for each.
const SETS_OF_A_LEVEL: usize = 1_000_000;

/// Levels tried, evenly spaced from the lowest wanted one to the current one. A lower level may succeed where a higher
/// one fails, so bisection would miss some.
const LEVELS: u64 = 16;

/// An assignment with a lower fullest bucket than `best`, if one was found; the search stops at `enough`.
pub(super) fn below<'a>(best: &Assignment<'a>, enough: u64) -> Option<Assignment<'a>> {
    let range = best.fullest().saturating_sub(enough);
    let levels = (0..LEVELS).map(|step| enough + (range as u128 * step as u128 / LEVELS as u128) as u64);
    levels
        .filter(|&level| level < best.fullest())
        .find_map(|level| filled(best, level))
}

/// Fills every bucket to at most `level`; `None` when entries are left over.
///
/// Each bucket gets the largest remaining entry, and then the set of others that leaves the least room (J. N. D. Gupta
/// and J. C. Ho, "A new heuristic algorithm for the one-dimensional bin-packing problem", 1999: minimum bin slack).
fn filled<'a>(best: &Assignment<'a>, level: u64) -> Option<Assignment<'a>> {
    let loads = best.entry_loads;
    let mut bucket_of = best.bucket_of.to_vec();
    let mut left = largest_first((0..loads.len()).filter(|&entry| loads[entry] > 0), loads);
    for bucket in 0..best.buckets() {
        let Some(&largest) = left.first() else { break };
        let room = level.checked_sub(loads[largest])?;
        let others: Vec<u64> = left[1..].iter().map(|&entry| loads[entry]).collect();
        let mut filling = Filling {
            loads: &others,
            chosen: Vec::new(),
            best: Vec::new(),
            least_room: room,
            left: SETS_OF_A_BUCKET.min(SETS_OF_A_LEVEL / best.buckets()),
        };
        filling.fill(0, room);
        let mut taken = filling.best.into_iter().map(|at| at + 1).peekable();
        let mut at = 0;
        left.retain(|&entry| {
            let takes = at == 0 || taken.next_if_eq(&at).is_some();
            at += 1;
            if takes {
                bucket_of[entry] = bucket;
            }
            !takes
        });
    }
    left.is_empty()
        .then(|| Assignment::new(loads, bucket_of, best.buckets()))
}

/// The search for the set that fills a bucket best.
struct Filling<'a> {
    /// Loads of the entries to choose from, largest first.
    loads: &'a [u64],
    /// Indices of those chosen so far, ascending.
    chosen: Vec<usize>,
    /// The set that leaves the least room, and that room.
    best: Vec<usize>,
    least_room: u64,
    /// Remaining number of sets to try.
    left: usize,
}

impl Filling<'_> {
    /// Adds entries from `from` on to those chosen, which leave `room`.
    fn fill(&mut self, from: usize, room: u64) {
        if room < self.least_room {
            self.least_room = room;
            self.best.clone_from(&self.chosen);
        }
        // Loads descend, so an entry that is too large now stays too large.
        let first = from + self.loads[from..].partition_point(|load| *load > room);
        for at in first..self.loads.len() {
            if self.least_room == 0 || self.left == 0 {
                return;
            }
            self.left -= 1;
            self.chosen.push(at);
            self.fill(at + 1, room - self.loads[at]);
            self.chosen.pop();
        }
    }
}
