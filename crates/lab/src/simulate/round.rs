//! One round: its flows are hashed once; each table then shows how full its buckets are, and how full they need be.

use super::document::{self, PerBucket, Trial};
use super::sizes::share_out;
use super::{MOST_CLIENTS, Request};
use crate::error::Refusal;
use crate::trial::TrialHead;
use corelane_loops::flows::{self, SOURCE_PORTS, Sources};
use corelane_rss::balance::{self, Options, bucket_loads};
use corelane_rss::{IndirectionTable, InputError, Toeplitz};
use fastrand::Rng;
use std::net::IpAddr;

pub use corelane_loops::flows::Flow;

/// The flows of a round and their hashes.
pub(super) struct Round {
    pub(super) number: u32,
    flows: Vec<Flow>,
    /// By flow, the hash of its tuple.
    hashes: Vec<u32>,
    /// By flow, a number drawn at random: the hash that leaves nothing to be wished for.
    random: Vec<u32>,
}

impl Round {
    pub(super) fn draw(request: &Request, number: u32) -> Result<Self, Refusal> {
        let flows = flows(request, number)?;
        let toeplitz = Toeplitz::new(&request.key);
        let mut entries = generator(request.seed, number, Purpose::Entries);
        Ok(Self {
            number,
            hashes: flows::hashes(&flows, &toeplitz, request.hash_fields),
            random: flows::random_hashes(&flows, &mut entries),
            flows,
        })
    }

    /// What the round shows for one table.
    pub(super) fn outcome(
        &self,
        head: TrialHead,
        table: &IndirectionTable,
        tolerance: f64,
    ) -> Result<(Trial, Vec<PerBucket>), InputError> {
        let buckets = table.buckets();
        let entry_loads = flows::entry_loads(&self.flows, &self.hashes, table);
        let random = bucket_loads(
            table,
            &flows::entry_loads(&self.flows, &self.random, table),
            buckets,
        );
        let rebalanced = balance::rebalance(table, &entry_loads, Options { buckets, tolerance })?;
        let (datagrams, largest) = flows::total_and_largest(&self.flows);
        let trial = Trial {
            head,
            table_size: table.size(),
            buckets,
            datagrams,
            fullest_datagrams: rebalanced.fullest_before,
            random_fullest_datagrams: random.into_iter().max().unwrap_or(0),
            rebalanced_fullest_datagrams: rebalanced.fullest_after,
            moves: rebalanced.moves.len(),
            least_fullest_datagrams: rebalanced.bound,
            largest_flow_datagrams: largest,
        };
        let before = bucket_loads(table, &entry_loads, buckets);
        let after = bucket_loads(&rebalanced.table, &entry_loads, buckets);
        Ok((trial, self.per_bucket(table, &before, &after)))
    }

    /// The flows as the document names them.
    pub(super) fn listed(&self) -> Vec<document::Flow> {
        let listed = |(flow, hash): (&Flow, &u32)| document::Flow {
            source: flow.tuple.source().to_string(),
            destination: flow.tuple.destination().to_string(),
            datagrams: flow.datagrams,
            hash: format!("0x{hash:08x}"),
        };
        self.flows.iter().zip(&self.hashes).map(listed).collect()
    }

    fn per_bucket(&self, table: &IndirectionTable, before: &[u64], after: &[u64]) -> Vec<PerBucket> {
        let total: u64 = before.iter().sum();
        let flows = flows::by_bucket(&self.hashes, table);
        let each = before.iter().zip(after).zip(flows).enumerate();
        let mut buckets: Vec<PerBucket> = each
            .map(
                |(bucket, ((&datagrams, &rebalanced_datagrams), flows))| PerBucket {
                    bucket,
                    entries: 0,
                    flows,
                    datagrams,
                    share: datagrams as f64 / total as f64,
                    rebalanced_datagrams,
                },
            )
            .collect();
        for bucket in table.entries() {
            buckets[bucket.index()].entries += 1;
        }
        buckets
    }
}

/// Returns the distinct flows of a round, largest first, drawn uniformly from the addresses and source ports of the
/// pool. The server's own address and port are excluded: such a flow would go from a socket to itself.
///
/// # Errors
/// When the pool is too small or too large, of another family than the server, or the sizes are impossible.
pub fn flows(request: &Request, round: u32) -> Result<Vec<Flow>, Refusal> {
    let clients: Vec<IpAddr> = request.clients.addresses().take(MOST_CLIENTS + 1).collect();
    if clients.len() > MOST_CLIENTS {
        let wrong = format!("the pool has more than {MOST_CLIENTS} addresses");
        let reason = format!("{wrong}: give a smaller one; a /12 of IPv4 is enough");
        return Err(Refusal::new("--clients", reason));
    }
    let sources = Sources::new(clients, request.server);
    if sources.count() < request.flows {
        let (clients, ports, flows) = (sources.clients(), SOURCE_PORTS.len(), request.flows);
        let wrong = format!("{clients} addresses with {ports} source ports each cannot make {flows} flows");
        return Err(Refusal::new("--clients", format!("{wrong}: give a larger pool")));
    }
    let datagrams = share_out(request.sizes, request.datagrams, request.flows)?;
    let mut random = generator(request.seed, round, Purpose::Tuples);
    sources.draw(&mut random, &datagrams).map_err(|error| {
        let reason = format!("the pool and the server are of different address families: {error}");
        Refusal::new("--clients and --server", reason)
    })
}

/// The purpose of a random number generator. Each purpose has its own generator, so one does not shift the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Tuples,
    Entries,
}

/// The generator of one round and purpose.
pub(super) fn generator(seed: u64, round: u32, purpose: Purpose) -> Rng {
    let mut seeds = Rng::with_seed(seed);
    for _ in 0..2 * round + purpose as u32 {
        seeds.u64(..);
    }
    Rng::with_seed(seeds.u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rounds_and_purposes_draw_different_numbers() {
        let mut first = HashSet::new();
        for round in 0..20 {
            for purpose in [Purpose::Tuples, Purpose::Entries] {
                assert!(
                    first.insert(generator(1, round, purpose).u64(..)),
                    "{round} {purpose:?}"
                );
            }
        }
    }
}
