//! Which buckets are active in the steps of an experiment, and on which CPUs and for how long their clients run.

use corelane_load::udp::Until;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Buckets up to which every number of active ones is a step of its own.
const MOST_STEPS_OF_ONE: usize = 8;

/// Why no client can be crossed.
pub(crate) const ONE_CPU: &str = "clients on the wrong CPU: needs two CPUs";

corelane_measure::words!(Placement);

/// Where each bucket's client ran. On veth and loopback the receive path runs on the sender's CPU, so this decides
/// locality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the CPU of the bucket's worker.
    Aligned,
    /// On another worker's CPU: the control, in which locality must collapse.
    Crossed,
}

impl Placement {
    /// Those requested; by default aligned, and crossed as the control of exact steering.
    pub(crate) fn chosen(requested: Option<&[Self]>, exact: bool) -> &[Self] {
        let both = &[Self::Aligned, Self::Crossed];
        requested.unwrap_or(if exact { both } else { &both[..1] })
    }

    /// The CPU of the client of each of the first buckets, from those of all workers.
    pub(crate) fn client_cpus(self, own: &[u32], active: usize) -> Vec<u32> {
        let mut cpus = match self {
            Self::Aligned => own.to_vec(),
            Self::Crossed => other_cpus(own),
        };
        cpus.truncate(active);
        cpus
    }

    /// Whether clients can run so beside workers on these CPUs.
    pub(crate) fn is_possible(self, own: &[u32]) -> bool {
        self == Self::Aligned || distinct(own) > 1
    }
}

/// How many buckets are active in the steps of one series: every number up to the limit, and with more buckets the
/// doublings and all of them, which keeps the run near a minute and the law's points apart. In a quick run one and all,
/// which linearity needs: the run then takes as long on a large machine as on a small one.
pub(crate) fn active_counts(buckets: usize, quick: bool) -> Vec<usize> {
    if quick && buckets > 1 {
        return vec![1, buckets];
    }
    if buckets <= MOST_STEPS_OF_ONE {
        return (1..=buckets).collect();
    }
    let doublings = std::iter::successors(Some(1), |active| Some(active * 2));
    doublings
        .take_while(|active| *active < buckets)
        .chain([buckets])
        .collect()
}

/// For each bucket's CPU the next worker's that is another one: where crossed clients run. Its own where there is no
/// other.
fn other_cpus(own: &[u32]) -> Vec<u32> {
    (0..own.len())
        .map(|bucket| {
            let mut others = own.iter().cycle().skip(bucket + 1).take(own.len());
            *others.find(|cpu| **cpu != own[bucket]).unwrap_or(&own[bucket])
        })
        .collect()
}

/// The end of a generator's run after this time.
pub(crate) const fn lasting(seconds: f64) -> Until {
    Until {
        duration_s: Some(seconds),
        datagrams: None,
    }
}

/// How many different CPUs there are.
pub(crate) fn distinct(cpus: &[u32]) -> usize {
    sorted(cpus.to_vec()).len()
}

/// Each CPU once, in their order.
pub(crate) fn sorted(cpus: Vec<u32>) -> Vec<u32> {
    cpus.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::words::read_word;

    #[test]
    fn steps_grow_by_one_on_small_machines_and_double_on_large_ones() {
        for (buckets, counts) in [
            (3, &[1, 2, 3][..]),
            (8, &[1, 2, 3, 4, 5, 6, 7, 8]),
            (24, &[1, 2, 4, 8, 16, 24]),
            (64, &[1, 2, 4, 8, 16, 32, 64]),
        ] {
            assert_eq!(active_counts(buckets, false), counts);
        }
    }

    #[test]
    fn a_quick_run_has_two_steps_however_large_the_machine_is() {
        for (buckets, counts) in [(1, &[1][..]), (2, &[1, 2]), (64, &[1, 64])] {
            assert_eq!(active_counts(buckets, true), counts);
        }
    }

    #[test]
    fn crossed_clients_run_on_another_cpu_wherever_there_is_one() {
        assert_eq!(other_cpus(&[0, 1, 2]), [1, 2, 0]);
        assert_eq!(other_cpus(&[0, 0, 1, 1]), [1, 1, 0, 0]);
        assert_eq!(other_cpus(&[3, 3]), [3, 3]);
        assert_eq!(distinct(&[0, 1, 0]), 2);
    }

    #[test]
    fn placements_are_read_as_they_are_written() {
        for placement in [Placement::Aligned, Placement::Crossed] {
            assert_eq!(read_word(&placement.to_string()), Ok(placement));
        }
        let unknown = read_word::<Placement>("inverted").unwrap_err().to_string();
        assert!(unknown.contains("aligned or crossed"), "{unknown}");
    }
}
