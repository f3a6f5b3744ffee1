//! The flow of each packet: takes pools of addresses and port ranges, returns one flow after the other.
//!
//! Either every packet has random addresses and ports, or a fixed number of flows take turns. With a steering document,
//! the fixed flows are spread evenly over all buckets.

use super::plan::{FlowChoice, GeneratedPlan, PacketsError};
use crate::pool::Pool;
use corelane_rss::{Steering, Tuple};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Attempts to find a flow for a bucket before failing: with 4,096 buckets, one attempt in 4,096 hits a given bucket,
/// and this many miss it with probability e^-24.
const DRAWS_A_FLOW: usize = 100_000;

/// Addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

/// Both address pools and both port ranges.
#[derive(Clone, Debug)]
pub(super) struct Space {
    sources: Addresses,
    destinations: Addresses,
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
}

impl Space {
    pub(super) fn new(plan: &GeneratedPlan) -> Result<Space, PacketsError> {
        let (sources, destinations) = (Addresses::of(&plan.sources)?, Addresses::of(&plan.destinations)?);
        if sources.is_ipv6 != destinations.is_ipv6 {
            return Err(PacketsError::MixedFamilies);
        }
        Ok(Space {
            sources,
            destinations,
            source_ports: plan.source_ports,
            destination_ports: plan.destination_ports,
        })
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.sources.is_ipv6
    }

    #[inline]
    fn draw(&self, draws: &mut fastrand::Rng) -> Flow {
        Flow {
            source: self.sources.draw(draws),
            destination: self.destinations.draw(draws),
            source_port: draws.u16(self.source_ports.0..=self.source_ports.1),
            destination_port: draws.u16(self.destination_ports.0..=self.destination_ports.1),
        }
    }

    fn tuple(&self, flow: Flow) -> Option<Tuple> {
        let end = |bits: u128, port: u16| {
            let address: IpAddr = if self.is_ipv6() {
                Ipv6Addr::from(bits).into()
            } else {
                Ipv4Addr::from(bits as u32).into()
            };
            SocketAddr::new(address, port)
        };
        let source = end(flow.source, flow.source_port);
        Tuple::new(source, end(flow.destination, flow.destination_port)).ok()
    }
}

/// The flows of one stream, one per packet.
#[derive(Clone, Debug)]
pub(super) enum Flows {
    /// A random flow for each packet.
    Random(Box<Space>),
    /// These flows in turn.
    Fixed(Vec<Flow>),
}

impl Flows {
    pub(super) fn new(
        space: Space,
        choice: FlowChoice,
        steering: Option<&Steering>,
        seed: u64,
    ) -> Result<Flows, PacketsError> {
        let count = match choice {
            FlowChoice::Random => return Ok(Flows::Random(Box::new(space))),
            FlowChoice::Fixed { flows } => flows.max(1),
        };
        let mut draws = fastrand::Rng::with_seed(seed);
        let Some(steering) = steering else {
            return Ok(Flows::Fixed((0..count).map(|_| space.draw(&mut draws)).collect()));
        };
        let steerer = steering.steerer();
        let buckets = steering.table.buckets();
        let mut flows = Vec::with_capacity(count);
        for number in 0..count {
            let wanted = number % buckets;
            let found = (0..DRAWS_A_FLOW).map(|_| space.draw(&mut draws)).find(|flow| {
                space
                    .tuple(*flow)
                    .is_some_and(|tuple| steerer.bucket_of(&tuple).index() == wanted)
            });
            flows.push(found.ok_or(PacketsError::Bucket { bucket: wanted })?);
        }
        Ok(Flows::Fixed(flows))
    }

    /// The flow of packet `number` of the stream.
    #[inline]
    pub(super) fn of(&self, number: u64, draws: &mut fastrand::Rng) -> Flow {
        match self {
            Flows::Random(space) => space.draw(draws),
            Flows::Fixed(flows) => flows[(number % flows.len() as u64) as usize],
        }
    }

    /// Number of flows that take turns; `None` if every packet has a random flow.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Flows::Random(_) => None,
            Flows::Fixed(flows) => Some(flows.len()),
        }
    }
}

/// Address ranges that allow random draws in constant time.
#[derive(Clone, Debug)]
struct Addresses {
    /// First address and number of addresses.
    ranges: Vec<(u128, u128)>,
    total: u128,
    is_ipv6: bool,
}

impl Addresses {
    fn of(pool: &Pool) -> Result<Addresses, PacketsError> {
        let prefixes = pool.prefixes();
        let is_ipv6 = prefixes.first().is_some_and(|prefix| prefix.addr().is_ipv6());
        if prefixes.iter().any(|prefix| prefix.addr().is_ipv6() != is_ipv6) {
            return Err(PacketsError::MixedFamilies);
        }
        let ranges: Vec<(u128, u128)> = prefixes.iter().map(range).collect();
        let total = ranges
            .iter()
            .fold(0u128, |sum, (_, count)| sum.saturating_add(*count));
        if total == 0 {
            return Err(PacketsError::EmptyPool);
        }
        Ok(Addresses {
            ranges,
            total,
            is_ipv6,
        })
    }

    #[inline]
    fn draw(&self, draws: &mut fastrand::Rng) -> u128 {
        let mut left = match self.total {
            1 => 0,
            total => draws.u128(..total),
        };
        for (first, count) in &self.ranges {
            if left < *count {
                return first + left;
            }
            left -= count;
        }
        self.ranges[0].0
    }
}

/// The first address of a prefix and its number of addresses. Network and broadcast addresses are included: they are
/// valid lookup keys, even if not valid host addresses.
fn range(prefix: &IpNet) -> (u128, u128) {
    let (first, bits) = match prefix {
        IpNet::V4(prefix) => (u128::from(u32::from(prefix.network())), 32),
        IpNet::V6(prefix) => (u128::from(prefix.network()), 128),
    };
    let count = 1u128
        .checked_shl(bits - u32::from(prefix.prefix_len()))
        .unwrap_or(u128::MAX);
    (first, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;
    use crate::packets::Sizes;
    use corelane_rss::{HashFields, IndirectionTable, Key};

    fn space(sources: &str, destinations: &str) -> Space {
        Space::new(&plan(sources, destinations)).unwrap()
    }

    fn plan(sources: &str, destinations: &str) -> GeneratedPlan {
        GeneratedPlan {
            sources: sources.parse().unwrap(),
            destinations: destinations.parse().unwrap(),
            source_ports: (1024, 65_535),
            destination_ports: (53, 53),
            flows: FlowChoice::Random,
            steering: None,
            sizes: Sizes::Imix,
            pace: Pace::Flood,
            destination_link: [0; 6],
            source_link: [0; 6],
            seed: 0,
        }
    }

    #[test]
    fn every_address_of_a_pool_is_drawn_and_no_other() {
        let space = space("10.0.0.0/30,192.0.2.1", "198.51.100.7-198.51.100.8");
        let mut draws = fastrand::Rng::with_seed(1);
        let mut sources: Vec<Ipv4Addr> = (0..500)
            .map(|_| Ipv4Addr::from(space.draw(&mut draws).source as u32))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        let expected = ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "192.0.2.1"];
        assert_eq!(sources, expected.map(|text| text.parse::<Ipv4Addr>().unwrap()));
    }

    #[test]
    fn with_a_steering_document_all_buckets_have_the_same_number_of_flows() {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 3).unwrap(),
            cpus: vec![0, 1, 2],
            generation: 0,
        };
        for (sources, destinations) in [("10.0.0.0/8", "192.0.2.1"), ("2001:db8::/32", "2001:db9::1")] {
            let space = space(sources, destinations);
            let flows =
                Flows::new(space.clone(), FlowChoice::Fixed { flows: 30 }, Some(&steering), 7).unwrap();
            let mut found = [0; 3];
            let steerer = steering.steerer();
            for number in 0..30 {
                let flow = flows.of(number, &mut fastrand::Rng::with_seed(0));
                let bucket = steerer.bucket_of(&space.tuple(flow).unwrap());
                found[bucket.index()] += 1;
            }
            assert_eq!(found, [10; 3]);
        }
    }

    #[test]
    fn pools_of_two_families_are_refused() {
        let refused = Space::new(&plan("10.0.0.1", "::1"));
        assert_eq!(
            refused.unwrap_err().to_string(),
            PacketsError::MixedFamilies.to_string()
        );
    }
}
