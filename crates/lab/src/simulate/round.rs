//! One round: its flows are hashed once; each table then shows how full its buckets are, and how full they need be.

use super::document::{self, PerBucket, Trial};
use super::sizes::share_out;
use super::{MOST_CLIENTS, Request};
use crate::error::Refusal;
use crate::tried::Tried;
use corelane_rss::balance::{self, Options, bucket_loads};
use corelane_rss::{IndirectionTable, InputError, Toeplitz, Tuple};
use fastrand::Rng;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

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
            hashes: flows
                .iter()
                .map(|flow| toeplitz.hash(&flow.tuple, request.hash_fields))
                .collect(),
            random: flows.iter().map(|_| entries.u32(..)).collect(),
            flows,
        })
    }

    /// What the round shows for one table.
    pub(super) fn outcome(
        &self,
        tried: Tried,
        table: &IndirectionTable,
        tolerance: f64,
    ) -> Result<(Trial, Vec<PerBucket>), InputError> {
        let buckets = table.buckets();
        let entry_loads = self.entry_loads(table, &self.hashes);
        let random = bucket_loads(table, &self.entry_loads(table, &self.random), buckets);
        let rebalanced = balance::rebalance(table, &entry_loads, Options { buckets, tolerance })?;
        let trial = Trial {
            tried,
            table_size: table.size(),
            buckets,
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

/// Source ports that a client may use without privilege.
const SOURCE_PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// One flow of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// From the client to the server.
    pub tuple: Tuple,
    /// Datagrams that it sends.
    pub datagrams: u64,
}

/// Returns the distinct flows of a round, largest first, drawn uniformly from the addresses and source ports of the
/// pool. The server's own address and port are excluded: such a flow would go from a socket to itself.
///
/// # Errors
/// When the pool is too small or too large, of another family than the server, or the sizes are impossible.
pub fn flows(request: &Request, round: u32) -> Result<Vec<Flow>, Refusal> {
    let sources = Sources::of(request)?;
    if sources.len() < request.flows {
        let (clients, ports, flows) = (sources.clients.len(), SOURCE_PORTS.len(), request.flows);
        let wrong = format!("{clients} addresses with {ports} source ports each cannot make {flows} flows");
        return Err(Refusal::new("--clients", format!("{wrong}: give a larger pool")));
    }
    let datagrams = share_out(request.sizes, request.datagrams, request.flows)?;
    let numbers = distinct(
        &mut generator(request.seed, round, Purpose::Tuples),
        sources.len(),
        request.flows,
    );
    let flow = |(number, datagrams)| {
        let tuple = Tuple::new(sources.get(number), request.server).map_err(|error| {
            let reason = format!("the pool and the server are of different address families: {error}");
            Refusal::new("--clients and --server", reason)
        })?;
        Ok(Flow { tuple, datagrams })
    };
    numbers.into_iter().zip(datagrams).map(flow).collect()
}

/// Every address and port that a flow can come from, numbered.
struct Sources {
    clients: Vec<IpAddr>,
    /// The number of the server itself, if it is among them.
    left_out: Option<usize>,
}

impl Sources {
    fn of(request: &Request) -> Result<Self, Refusal> {
        let mut clients: Vec<IpAddr> = request.clients.addresses().take(MOST_CLIENTS + 1).collect();
        if clients.len() > MOST_CLIENTS {
            let wrong = format!("the pool has more than {MOST_CLIENTS} addresses");
            let reason = format!("{wrong}: give a smaller one; a /12 of IPv4 is enough");
            return Err(Refusal::new("--clients", reason));
        }
        clients.sort_unstable();
        clients.dedup();
        let server = clients.binary_search(&request.server.ip()).ok();
        let port = request.server.port().checked_sub(*SOURCE_PORTS.start());
        let left_out = server
            .zip(port)
            .map(|(client, port)| client * SOURCE_PORTS.len() + usize::from(port));
        Ok(Self { clients, left_out })
    }

    fn len(&self) -> usize {
        self.clients.len() * SOURCE_PORTS.len() - usize::from(self.left_out.is_some())
    }

    fn get(&self, number: usize) -> SocketAddr {
        let skipped = self.left_out.is_some_and(|left_out| left_out <= number);
        let number = number + usize::from(skipped);
        let port = SOURCE_PORTS.start() + (number % SOURCE_PORTS.len()) as u16;
        SocketAddr::new(self.clients[number / SOURCE_PORTS.len()], port)
    }
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

/// Returns distinct numbers below `limit`, in random order (R. W. Floyd's sampling, in J. Bentley, "Programming pearls:
/// a sample of brilliance", 1987, then shuffled).
fn distinct(random: &mut Rng, limit: usize, count: usize) -> Vec<usize> {
    let mut taken = HashSet::with_capacity(count);
    let mut numbers = Vec::with_capacity(count);
    for last in limit - count..limit {
        let number = random.usize(..=last);
        let number = if taken.insert(number) { number } else { last };
        taken.insert(number);
        numbers.push(number);
    }
    random.shuffle(&mut numbers);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_drawn_are_different_and_below_the_limit() {
        for (limit, count) in [(10, 10), (1000, 30), (1, 1), (5, 0)] {
            let numbers = distinct(&mut Rng::with_seed(7), limit, count);
            let different: HashSet<usize> = numbers.iter().copied().collect();
            assert_eq!((numbers.len(), different.len()), (count, count));
            assert!(numbers.iter().all(|number| *number < limit), "{numbers:?}");
        }
    }

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
