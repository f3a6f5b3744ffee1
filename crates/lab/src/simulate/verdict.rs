//! The conclusions: how many buckets a table keeps busy, as it is and rebalanced, and what no table can spread. A pure
//! function of the steps, so that it can be read and tested.

use super::document::{LARGEST_FLOW, REBALANCED_SHARE, Step, THROUGHPUT_SHARE, Trial};
use corelane_measure::metric::Metric;

/// Buckets keep each other busy when this share of what they could carry together is carried.
const GOOD_SHARE: f64 = 0.9;

/// One sentence a table size, and one about the largest flow.
pub(super) fn conclusions(steps: &[Step]) -> Vec<String> {
    let tables = steps.chunk_by(|one, next| one.table_size == next.table_size);
    tables.map(table_sentence).chain([flow_sentence(steps)]).collect()
}

fn table_sentence(steps: &[Step]) -> String {
    let size = steps.first().map_or(0, |step| step.table_size);
    let as_it_is = reach(steps, &THROUGHPUT_SHARE);
    let rebalanced = reach(steps, &REBALANCED_SHARE);
    let good = GOOD_SHARE * 100.0;
    format!("{size} entries: at least {good:.0} % of the ideal {as_it_is}; rebalanced {rebalanced}.")
}

/// Up to how many buckets every number of them is good.
fn reach(steps: &[Step], share: &Metric<Trial>) -> String {
    let mut by_buckets: Vec<&Step> = steps.iter().collect();
    by_buckets.sort_by_key(|step| step.buckets);
    let good = by_buckets
        .iter()
        .take_while(|step| share.of(*step).is_some_and(|share| share >= GOOD_SHARE));
    match good.last() {
        Some(step) => format!("up to {} buckets", step.buckets),
        None => "for none of these".to_owned(),
    }
}

fn flow_sentence(steps: &[Step]) -> String {
    let is_too_large = |step: &&Step| {
        LARGEST_FLOW
            .of(*step)
            .is_some_and(|over_mean| over_mean * GOOD_SHARE > 1.0)
    };
    let too_large = steps.iter().filter(is_too_large);
    match too_large.map(|step| step.buckets).min() {
        Some(buckets) => {
            format!(
                "From {buckets} buckets on the largest flow alone is more than a bucket's share; no table can split it."
            )
        }
        None => "No flow is more than a bucket's share: what is uneven comes from hash and table.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step in which each bucket should carry 100 datagrams.
    fn step(table_size: usize, buckets: usize, fullest: u64, rebalanced: u64, largest_flow: u64) -> Step {
        let trial = Trial {
            table_size,
            buckets,
            datagrams: 100 * buckets as u64,
            fullest_datagrams: fullest,
            random_fullest_datagrams: fullest,
            rebalanced_fullest_datagrams: rebalanced,
            moves: 1,
            least_fullest_datagrams: rebalanced,
            largest_flow_datagrams: largest_flow,
            ..Trial::default()
        };
        Step::of(&[&trial], Vec::new()).unwrap()
    }

    #[test]
    fn the_conclusions_name_how_far_each_table_reaches() {
        let steps = [
            step(128, 2, 105, 100, 10),
            step(128, 4, 130, 102, 20),
            step(128, 8, 170, 160, 80),
            step(4096, 4, 150, 100, 20),
        ];
        let expected = [
            "128 entries: at least 90 % of the ideal up to 2 buckets; rebalanced up to 4 buckets.",
            "4096 entries: at least 90 % of the ideal for none of these; rebalanced up to 4 buckets.",
            "No flow is more than a bucket's share: what is uneven comes from hash and table.",
        ];
        assert_eq!(conclusions(&steps), expected);
    }

    #[test]
    fn a_flow_that_outweighs_a_bucket_is_named() {
        let steps = [
            step(128, 2, 105, 100, 50),
            step(128, 8, 210, 200, 200),
            step(128, 4, 120, 120, 120),
        ];
        let last = conclusions(&steps).pop().unwrap();
        assert!(
            last.starts_with("From 4 buckets on the largest flow alone"),
            "{last}"
        );
    }
}
