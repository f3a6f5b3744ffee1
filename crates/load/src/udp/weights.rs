//! Shares under skew: the shares of a [`Skew`] are dealt to the sockets of a plan, and each worker schedules its own
//! sockets by them.
//!
//! In: the planned workers. Out: a weight per socket, and at run time the next socket to send.

use crate::sources::PlannedWorker;
use crate::udp::Skew;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Assigns every socket its share of the traffic: the largest to the first socket of the first worker, the next to the
/// first of the second worker, and so on, round-robin. This minimises the imbalance between workers; the remainder is
/// inherent in the skew.
pub(super) fn deal(skew: Skew, workers: &mut [PlannedWorker]) {
    let sockets: Vec<usize> = workers.iter().map(PlannedWorker::sockets).collect();
    let Some(shares) = skew.shares(sockets.iter().sum()) else {
        return;
    };
    let mut shares = shares.into_iter();
    for turn in 0..sockets.iter().copied().max().unwrap_or(0) {
        for (worker, sockets) in workers.iter_mut().zip(&sockets) {
            if turn < *sockets {
                worker.weights.extend(shares.next());
            }
        }
    }
}

/// Scheduler of the sockets of one worker: each is selected in proportion to its weight, evenly spaced.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    /// The next turn of each socket, in units of stride; the smallest comes first.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    strides: Vec<u64>,
}

/// The stride of a socket that has all the worker's traffic: fine enough for weights down to 1 in 2^32, and far from
/// overflow after 2^32 turns of a socket.
const FINEST_STRIDE: f64 = 65_536.0;

impl Turns {
    /// The scheduler of sockets with these weights, which must not be 0.
    pub(super) fn new(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        let strides: Vec<u64> = weights
            .iter()
            .map(|weight| (FINEST_STRIDE * sum / weight).min(u64::MAX as f64 / 4e9) as u64)
            .collect();
        let next = strides
            .iter()
            .zip(0..)
            .map(|(stride, socket)| Reverse((stride / 2, socket)));
        Self {
            next: next.collect(),
            strides,
        }
    }

    /// The socket to send next.
    pub(super) fn current(&self) -> usize {
        self.next
            .peek()
            .map_or(0, |Reverse((_, socket))| *socket as usize)
    }

    /// Ends its turn.
    pub(super) fn advance(&mut self) {
        if let Some(mut first) = self.next.peek_mut() {
            let Reverse((due, socket)) = &mut *first;
            *due += self.strides[*socket as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Lease, Ports};
    use corelane_rss::plan::Landing;

    fn workers(sockets: &[usize]) -> Vec<PlannedWorker> {
        let worker = |sockets: &usize| PlannedWorker {
            leases: vec![Lease {
                address: "10.0.0.1".parse().unwrap(),
                ports: Ports::Kernel,
                connections: *sockets,
                landing: Landing::default(),
            }],
            ..PlannedWorker::default()
        };
        sockets.iter().map(worker).collect()
    }

    #[test]
    fn the_largest_shares_go_round_the_workers() {
        let mut workers = workers(&[2, 1, 2]);
        deal(Skew::Zipf { exponent: 1.0 }, &mut workers);
        let sum: f64 = (1..=5).map(|rank| 1.0 / f64::from(rank)).sum();
        let ranks: Vec<Vec<u32>> = workers
            .iter()
            .map(|worker| {
                worker
                    .weights
                    .iter()
                    .map(|share| (1.0 / (share * sum)).round() as u32)
                    .collect()
            })
            .collect();
        assert_eq!(ranks, [vec![1, 4], vec![2], vec![3, 5]]);
    }

    #[test]
    fn without_skew_nobody_has_a_weight() {
        let mut workers = workers(&[2, 1]);
        deal(Skew::None, &mut workers);
        assert!(workers.iter().all(|worker| worker.weights.is_empty()));
    }

    #[test]
    fn turns_come_up_in_proportion_at_any_moment() {
        let weights = [0.6, 0.3, 0.1];
        let mut turns = Turns::new(&weights);
        let mut counts = [0_u32; 3];
        for done in 1..=10_000 {
            counts[turns.current()] += 1;
            turns.advance();
            for (count, weight) in counts.iter().zip(weights) {
                let due = f64::from(done) * weight;
                assert!((f64::from(*count) - due).abs() <= 1.5, "{done}: {counts:?}");
            }
        }
    }
}
