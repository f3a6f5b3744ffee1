//! Lower bounds for any rebalancing: of the fullest bucket, and of the number of moves to a level.

use super::assignment::Assignment;
use super::leaving;

/// Lower bound of the fullest bucket, for any assignment of these loads to this many buckets.
///
/// The mean is a bound because the buckets hold the total. The pigeonhole principle gives others: of the `k * buckets +
/// 1` largest entries some bucket holds `k + 1`, with at least the load of the `k + 1` smallest of them; for `k = 0`
/// that is the largest entry. The bound is rounded up to a multiple of the common divisor of all loads.
pub(super) fn fullest(entry_loads: &[u64], buckets: usize) -> u64 {
    let mut loads = entry_loads.to_vec();
    loads.sort_unstable_by(|one, other| other.cmp(one));
    let mean = loads.iter().sum::<u64>().div_ceil(buckets as u64);
    let crowded = (0..loads.len().div_ceil(buckets)).map(|k| {
        let largest = &loads[..=k * buckets];
        largest[largest.len() - 1 - k..].iter().sum()
    });
    let divisor = loads
        .iter()
        .fold(0, |divisor, load| common_divisor(divisor, *load))
        .max(1);
    crowded.fold(mean, u64::max).next_multiple_of(divisor)
}

/// The greatest common divisor (Euclid).
fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        common_divisor(other, one % other)
    }
}

/// Lower bound of the moves that bring every bucket of `present` to `level`: from each bucket above the level, the
/// number of its largest entries that must leave.
pub(super) fn moves(present: &Assignment<'_>, level: u64) -> usize {
    (0..present.buckets())
        .map(|bucket| leaving::fewest(present, bucket, level))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_mean_the_largest_entry_or_a_crowd() {
        assert_eq!(fullest(&[3, 3, 3, 3], 2), 6);
        assert_eq!(fullest(&[1, 2, 10, 1], 3), 10);
        assert_eq!(fullest(&[5, 5, 5, 4], 3), 9, "two of the four share a bucket");
        assert_eq!(fullest(&[7; 7], 3), 21, "three of the seven share a bucket");
        assert_eq!(fullest(&[0, 0], 3), 0);
        assert_eq!(fullest(&[5, 4], 2), 5);
        assert_eq!(
            fullest(&[10, 10, 10, 20, 20, 20], 4),
            30,
            "22.5 is no sum of tens"
        );
    }

    #[test]
    fn as_many_moves_are_needed_as_the_largest_entries_take() {
        let loads = [8, 1, 1, 6, 6, 6];
        let present = Assignment::new(&loads, vec![0, 0, 0, 1, 1, 1], 3);
        assert_eq!(
            moves(&present, 10),
            2,
            "bucket 0 is level, bucket 1 gives two of its three up"
        );
        assert_eq!(moves(&present, 18), 0);
    }
}
