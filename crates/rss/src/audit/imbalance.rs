//! Measures how evenly hashes are spread over buckets, and whether chance explains the imbalance.

use crate::steering::Steering;
use crate::table::{Bucket, IndirectionTable};
use crate::toeplitz::Toeplitz;
use crate::tuple::{HashInput, Tuple};
use serde::Serialize;

/// Distribution of flows over the buckets of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Imbalance {
    /// Flows counted.
    pub flows: u64,
    /// By bucket.
    pub buckets: Vec<BucketShare>,
    /// Flows of the fullest bucket, divided by the mean over all buckets that have entries.
    pub fullest_over_mean: f64,
    /// Largest excess of a bucket over its share, in standard deviations of a random distribution. Above
    /// [`Imbalance::SUSPICIOUS`] the key is unsuitable for these flows.
    pub worst_deviations: f64,
}

impl Imbalance {
    /// By chance, one of a thousand buckets exceeds its share this much once in a million tries.
    pub const SUSPICIOUS: f64 = 6.0;
}

/// One bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BucketShare {
    /// The bucket.
    pub bucket: Bucket,
    /// Number of its flows.
    pub flows: u64,
    /// Expected number of flows, by its share of the table's entries.
    pub expected: f64,
}

/// Counts flows by the bucket to which `rule` steers them. Those with equal hash input count once: if ports are not hashed,
/// each client counts once.
#[must_use]
pub fn imbalance(rule: &Steering, flows: &[Tuple]) -> Imbalance {
    let inputs = flows.iter().map(|flow| flow.input(rule.hash_fields));
    let mut inputs: Vec<HashInput> = inputs.collect();
    inputs.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    inputs.dedup_by(|one, other| one.as_bytes() == other.as_bytes());
    let toeplitz = Toeplitz::new(&rule.key);
    let hashes = inputs.iter().map(|input| toeplitz.hash_input(input.as_bytes()));
    of_hashes(rule.steerer().table(), hashes)
}

/// Counts the hashes of flows by bucket, each flow once. The table itself may be uneven on purpose, so the expected
/// share of a bucket is its share of the entries.
fn of_hashes(table: &IndirectionTable, hashes: impl IntoIterator<Item = u32>) -> Imbalance {
    let mut counts = vec![0_u64; table.buckets()];
    let mut flows = 0_u64;
    for hash in hashes {
        counts[table.bucket(hash).index()] += 1;
        flows += 1;
    }
    let mut entries = vec![0_u32; table.buckets()];
    for bucket in table.entries() {
        entries[bucket.index()] += 1;
    }
    let share = |bucket: usize| f64::from(entries[bucket]) / table.size() as f64;
    let deviations = |bucket: usize| {
        let (share, flows) = (share(bucket), flows as f64);
        let spread = (flows * share * (1.0 - share)).sqrt();
        if spread > 0.0 {
            (counts[bucket] as f64 - flows * share) / spread
        } else {
            0.0
        }
    };
    let named = entries.iter().filter(|entries| **entries > 0).count();
    let fullest = counts.iter().copied().max().unwrap_or(0);
    Imbalance {
        flows,
        fullest_over_mean: if flows == 0 {
            1.0
        } else {
            fullest as f64 * named as f64 / flows as f64
        },
        worst_deviations: (0..counts.len()).map(deviations).fold(0.0, f64::max),
        buckets: (0..counts.len())
            .map(|bucket| BucketShare {
                bucket: Bucket::new(bucket as u16),
                flows: counts[bucket],
                expected: flows as f64 * share(bucket),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_hashes_are_even_and_one_hash_is_not() {
        let table = IndirectionTable::round_robin(128, 4).unwrap();
        let even = of_hashes(&table, 0..1280);
        assert_eq!((even.fullest_over_mean, even.worst_deviations), (1.0, 0.0));
        let one = of_hashes(&table, [6; 1000]);
        assert_eq!(one.fullest_over_mean, 4.0);
        assert!(one.worst_deviations > Imbalance::SUSPICIOUS);
    }

    #[test]
    fn a_table_uneven_on_purpose_is_no_imbalance_of_the_key() {
        let table = IndirectionTable::from_entries([0, 0, 0, 1].map(Bucket::new).to_vec()).unwrap();
        let fell = of_hashes(&table, 0..400);
        assert_eq!(fell.worst_deviations, 0.0);
        assert_eq!(fell.fullest_over_mean, 1.5);
        assert_eq!(fell.buckets[1].expected, 100.0);
    }

    #[test]
    fn no_flows_are_no_imbalance() {
        let table = IndirectionTable::round_robin(4, 1).unwrap();
        assert_eq!(of_hashes(&table, []).worst_deviations, 0.0);
    }
}
