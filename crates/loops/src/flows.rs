//! Flows drawn at random, hashed, and counted by the entries and buckets of a table.

use corelane_rss::{HashFields, IndirectionTable, Toeplitz, Tuple, TupleError};
use fastrand::Rng;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Source ports that a client may use without privilege.
pub const SOURCE_PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// From the client to the server.
    pub tuple: Tuple,
    /// Datagrams that it sends.
    pub datagrams: u64,
}

/// Every address and port that flows to a server can come from.
pub struct Sources {
    clients: Vec<IpAddr>,
    server: SocketAddr,
    /// The number of the server's own address and port, which is no source.
    left_out: Option<usize>,
}

impl Sources {
    /// All ports of these clients.
    #[must_use]
    pub fn new(mut clients: Vec<IpAddr>, server: SocketAddr) -> Self {
        clients.sort_unstable();
        clients.dedup();
        let client = clients.binary_search(&server.ip()).ok();
        let port = server.port().checked_sub(*SOURCE_PORTS.start());
        let left_out = client
            .zip(port)
            .map(|(client, port)| client * SOURCE_PORTS.len() + usize::from(port));
        Self {
            clients,
            server,
            left_out,
        }
    }

    /// The number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The number of sources.
    #[must_use]
    pub fn count(&self) -> usize {
        self.clients.len() * SOURCE_PORTS.len() - usize::from(self.left_out.is_some())
    }

    /// Draws a different source for each flow, of which there are at most as many as sources.
    ///
    /// # Errors
    /// If clients and server are of different families.
    pub fn draw(&self, random: &mut Rng, datagrams: &[u64]) -> Result<Vec<Flow>, TupleError> {
        let numbers = distinct(random, self.count(), datagrams.len());
        let flow = |(number, &datagrams)| {
            let tuple = Tuple::new(self.get(number), self.server)?;
            Ok(Flow { tuple, datagrams })
        };
        numbers.into_iter().zip(datagrams).map(flow).collect()
    }

    fn get(&self, number: usize) -> SocketAddr {
        let skipped = self.left_out.is_some_and(|left_out| left_out <= number);
        let number = number + usize::from(skipped);
        let port = SOURCE_PORTS.start() + (number % SOURCE_PORTS.len()) as u16;
        SocketAddr::new(self.clients[number / SOURCE_PORTS.len()], port)
    }
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

/// Gives each flow its share of the datagrams; what the shares leave by rounding goes to the next flow.
#[must_use]
pub fn share_out(shares: &[f64], datagrams: u64) -> Vec<u64> {
    let (mut sum, mut given) = (0.0, 0);
    let datagrams_of = |share: &f64| {
        sum += share;
        let until = ((sum * datagrams as f64).round() as u64).min(datagrams);
        until - std::mem::replace(&mut given, until)
    };
    shares.iter().map(datagrams_of).collect()
}

/// Datagrams of all flows, and of the largest.
#[must_use]
pub fn total_and_largest(flows: &[Flow]) -> (u64, u64) {
    flows.iter().fold((0, 0), |(total, largest), flow| {
        (total + flow.datagrams, largest.max(flow.datagrams))
    })
}

/// The hash of each flow.
#[must_use]
pub fn hashes(flows: &[Flow], toeplitz: &Toeplitz, fields: HashFields) -> Vec<u32> {
    flows
        .iter()
        .map(|flow| toeplitz.hash(&flow.tuple, fields))
        .collect()
}

/// As many random hashes as there are flows.
#[must_use]
pub fn random_hashes(flows: &[Flow], random: &mut Rng) -> Vec<u32> {
    flows.iter().map(|_| random.u32(..)).collect()
}

/// Datagrams by entry of a table.
#[must_use]
pub fn entry_loads(flows: &[Flow], hashes: &[u32], table: &IndirectionTable) -> Vec<u64> {
    let mut loads = vec![0; table.size()];
    for (flow, &hash) in flows.iter().zip(hashes) {
        loads[table.entry(hash)] += flow.datagrams;
    }
    loads
}

/// Flows by bucket of a table.
#[must_use]
pub fn by_bucket(hashes: &[u32], table: &IndirectionTable) -> Vec<usize> {
    let mut flows = vec![0; table.buckets()];
    for &hash in hashes {
        flows[table.bucket(hash).index()] += 1;
    }
    flows
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
}
