//! Which buckets are active in the steps of an experiment, and on which CPUs their clients run.

use std::collections::BTreeSet;

/// Buckets up to which every number of active ones is a step of its own.
const MOST_STEPS_OF_ONE: usize = 8;

/// How many buckets are active in the steps of one series: every number up to the limit, and with more buckets the doublings
/// and all of them, which keeps the run near a minute and the law's points apart.
pub(crate) fn active_counts(buckets: usize) -> Vec<usize> {
    if buckets <= MOST_STEPS_OF_ONE {
        return (1..=buckets).collect();
    }
    let doublings = std::iter::successors(Some(1), |active| Some(active * 2));
    doublings
        .take_while(|active| *active < buckets)
        .chain([buckets])
        .collect()
}

/// For each bucket's CPU the next worker's that is another one: where crossed clients run. Its own where there is no other.
pub(crate) fn other_cpus(own: &[u32]) -> Vec<u32> {
    (0..own.len())
        .map(|bucket| {
            let mut others = own.iter().cycle().skip(bucket + 1).take(own.len());
            *others.find(|cpu| **cpu != own[bucket]).unwrap_or(&own[bucket])
        })
        .collect()
}

/// How many different CPUs there are.
pub(crate) fn distinct(cpus: &[u32]) -> usize {
    cpus.iter().collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_by_one_on_small_machines_and_double_on_large_ones() {
        assert_eq!(active_counts(3), [1, 2, 3]);
        assert_eq!(active_counts(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(active_counts(24), [1, 2, 4, 8, 16, 24]);
        assert_eq!(active_counts(64), [1, 2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn crossed_clients_run_on_another_cpu_wherever_there_is_one() {
        assert_eq!(other_cpus(&[0, 1, 2]), [1, 2, 0]);
        assert_eq!(other_cpus(&[0, 0, 1, 1]), [1, 1, 0, 0]);
        assert_eq!(other_cpus(&[3, 3]), [3, 3]);
        assert_eq!(distinct(&[0, 1, 0]), 2);
    }
}
