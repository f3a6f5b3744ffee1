//! Draws flows from a pool. In: a request and the number of a round. Out: distinct tuples and the datagrams of each.

use super::{MOST_CLIENTS, Request};
use crate::error::Refusal;
use corelane_rss::Tuple;
use fastrand::Rng;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

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
    let datagrams = request.sizes.share_out(request.datagrams, request.flows)?;
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
