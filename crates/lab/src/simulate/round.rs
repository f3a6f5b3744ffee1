//! One round: its flows are hashed once; each table then shows how full its buckets are, and how full they need be.

use super::Request;
use super::document::{self, PerBucket, Trial};
use super::draw::{Flow, Purpose, flows, generator};
use crate::error::Refusal;
use corelane_rss::balance::{self, BalanceError, Options, bucket_loads};
use corelane_rss::{IndirectionTable, Toeplitz};

/// The flows of a round and their hashes.
pub(super) struct Round {
    pub(super) number: u32,
    flows: Vec<Flow>,
    /// By flow, the hash of its tuple.
    hashes: Vec<u32>,
    /// By flow, a number drawn at random: the hash that leaves nothing to be wished for.
    random: Vec<u32>,
}

/// What a round shows for one table.
pub(super) struct Outcome {
    pub(super) trial: Trial,
    pub(super) per_bucket: Vec<PerBucket>,
}

impl Round {
    pub(super) fn draw(request: &Request, number: u32) -> Result<Self, Refusal> {
        let flows = flows(request, number)?;
        let toeplitz = Toeplitz::new(&request.key);
        let mut entries = generator(request.seed, number, Purpose::Entries);
        Ok(Self {
            number,
            hashes: flows
                .iter()
                .map(|flow| toeplitz.hash(&flow.tuple, request.hash_fields))
                .collect(),
            random: flows.iter().map(|_| entries.u32(..)).collect(),
            flows,
        })
    }

    pub(super) fn outcome(&self, table: &IndirectionTable, tolerance: f64) -> Result<Outcome, BalanceError> {
        let buckets = table.buckets();
        let entry_loads = self.entry_loads(table, &self.hashes);
        let random = bucket_loads(table, &self.entry_loads(table, &self.random), buckets);
        let rebalanced = balance::rebalance(table, &entry_loads, Options { buckets, tolerance })?;
        let trial = Trial {
            table_size: table.size(),
            buckets,
            round: self.number,
            datagrams: self.flows.iter().map(|flow| flow.datagrams).sum(),
            fullest_datagrams: rebalanced.fullest_before,
            random_fullest_datagrams: random.into_iter().max().unwrap_or(0),
            rebalanced_fullest_datagrams: rebalanced.fullest_after,
            moves: rebalanced.moves.len(),
            least_fullest_datagrams: rebalanced.bound,
            largest_flow_datagrams: self.flows.iter().map(|flow| flow.datagrams).max().unwrap_or(0),
        };
        let before = bucket_loads(table, &entry_loads, buckets);
        let after = bucket_loads(&rebalanced.table, &entry_loads, buckets);
        Ok(Outcome {
            trial,
            per_bucket: self.per_bucket(table, &before, &after),
        })
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

    /// Datagrams on each entry of a table when flows have these hashes.
    fn entry_loads(&self, table: &IndirectionTable, hashes: &[u32]) -> Vec<u64> {
        let mut loads = vec![0; table.size()];
        for (flow, &hash) in self.flows.iter().zip(hashes) {
            loads[table.entry(hash)] += flow.datagrams;
        }
        loads
    }

    fn per_bucket(&self, table: &IndirectionTable, before: &[u64], after: &[u64]) -> Vec<PerBucket> {
        let total: u64 = before.iter().sum();
        let each = before.iter().zip(after).enumerate();
        let mut buckets: Vec<PerBucket> = each
            .map(|(bucket, (&datagrams, &rebalanced_datagrams))| PerBucket {
                bucket,
                entries: 0,
                flows: 0,
                datagrams,
                share: datagrams as f64 / total as f64,
                rebalanced_datagrams,
            })
            .collect();
        for bucket in table.entries() {
            buckets[bucket.index()].entries += 1;
        }
        for &hash in &self.hashes {
            buckets[table.bucket(hash).index()].flows += 1;
        }
        buckets
    }
}
