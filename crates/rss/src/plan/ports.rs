//! Sorts a range of source ports by the bucket that a flow between two fixed ends reaches.
//!
//! The hash is linear over GF(2) in the port's bits, so the contribution of a port is the sum of the contributions of
//! its bits: no hash per port is needed.

use super::addresses::by_bucket;
use crate::hash::HashFields;
use crate::steering::Steering;
use crate::table::Bucket;
use crate::tuple::{Tuple, TupleError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use thiserror::Error;

/// The source ports that reach each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPlan {
    /// By bucket, the ports that reach it, ascending.
    pub buckets: Vec<Vec<u16>>,
    /// Buckets of the table that no port of the range reaches.
    pub unreached: Vec<Bucket>,
}

/// The source ports by the pair of server bucket and client bucket that the flow reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairedPortPlan {
    pairs: BTreeMap<(Bucket, Bucket), Vec<u16>>,
}

impl PairedPortPlan {
    /// The ports whose packets reach bucket `server` of the server and whose replies reach bucket `client` of the
    /// client, ascending; empty if no port satisfies both.
    #[must_use]
    pub fn ports(&self, server: Bucket, client: Bucket) -> &[u16] {
        self.pairs.get(&(server, client)).map_or(&[], Vec::as_slice)
    }

    /// Every pair of buckets (server's, client's) that has ports, in order, with them.
    pub fn pairs(&self) -> impl Iterator<Item = ((Bucket, Bucket), &[u16])> {
        self.pairs.iter().map(|(&pair, ports)| (pair, ports.as_slice()))
    }
}

/// The ports of `range` from which packets of `client` reach each bucket of `server`, which uses `steering`.
///
/// With `limit_per_bucket` only that many of the lowest ports per bucket are returned. Port 0 cannot be bound and is
/// never returned. Neither is the server's own port if client and server share an address, because both ends of that
/// flow would be the same socket.
pub fn ports(
    steering: &Steering,
    client: IpAddr,
    server: SocketAddr,
    range: RangeInclusive<u16>,
    limit_per_bucket: Option<usize>,
) -> Result<PortPlan, PlanError> {
    let flows = Flows::new(client, server, range, limit_per_bucket)?;
    flows.plan(steering, |tuple| tuple)
}

/// The ports of `range` for which replies of `server` reach each bucket of `client`, which uses `steering`.
///
/// Limits and excluded ports are those of [`ports`].
pub fn reply_ports(
    steering: &Steering,
    client: IpAddr,
    server: SocketAddr,
    range: RangeInclusive<u16>,
    limit_per_bucket: Option<usize>,
) -> Result<PortPlan, PlanError> {
    let flows = Flows::new(client, server, range, limit_per_bucket)?;
    flows.plan(steering, |tuple| tuple.reversed())
}

/// The ports of `range` by the pair of buckets that a flow reaches: the server's (under `forward`) and the client's
/// (under `reply`).
///
/// The limit applies to every pair of buckets; excluded ports are those of [`ports`]. One end may use 2-tuple steering:
/// all ports then share its bucket.
pub fn paired_ports(
    forward: &Steering,
    reply: &Steering,
    client: IpAddr,
    server: SocketAddr,
    range: RangeInclusive<u16>,
    limit_per_pair: Option<usize>,
) -> Result<PairedPortPlan, PlanError> {
    if forward.hash_fields == HashFields::TwoTuple && reply.hash_fields == HashFields::TwoTuple {
        return Err(PlanError::PortsNotHashed);
    }
    let flows = Flows::new(client, server, range, limit_per_pair)?;
    let ports = flows.buckets(forward, |tuple| tuple);
    let both = ports.zip(flows.buckets(reply, |tuple| tuple.reversed()));
    let mut pairs: BTreeMap<(Bucket, Bucket), Vec<u16>> = BTreeMap::new();
    for ((port, server), (_, client)) in both {
        let ports = pairs.entry((server, client)).or_default();
        if ports.len() < flows.limit {
            ports.push(port);
        }
    }
    pairs.retain(|_, ports| !ports.is_empty());
    Ok(PairedPortPlan { pairs })
}

/// The flows among which ports are chosen.
struct Flows {
    /// The flow from port 0.
    from_zero: Tuple,
    range: RangeInclusive<u16>,
    /// The excluded port: the server's own, if the client has its address.
    left_out: Option<u16>,
    limit: usize,
}

impl Flows {
    fn new(
        client: IpAddr,
        server: SocketAddr,
        range: RangeInclusive<u16>,
        limit: Option<usize>,
    ) -> Result<Flows, PlanError> {
        let from_zero = Tuple::new(SocketAddr::new(client, 0), server)?;
        let bindable = *range.start().max(&1)..=*range.end();
        if bindable.is_empty() {
            let (start, end) = range.into_inner();
            return Err(PlanError::EmptyRange { start, end });
        }
        let own = from_zero.source().ip() == from_zero.destination().ip();
        Ok(Flows {
            from_zero,
            range: bindable,
            left_out: own.then_some(server.port()),
            limit: limit.unwrap_or(usize::MAX),
        })
    }

    /// Ports by bucket under one steering, which hashes the tuples `hashed`.
    fn plan(&self, steering: &Steering, hashed: fn(Tuple) -> Tuple) -> Result<PortPlan, PlanError> {
        if steering.hash_fields == HashFields::TwoTuple {
            return Err(PlanError::PortsNotHashed);
        }
        let ports = self.buckets(steering, hashed);
        let (buckets, unreached) = by_bucket(&steering.table, self.limit, ports);
        Ok(PortPlan { buckets, unreached })
    }

    /// Every port that a plan may return, ascending, and its bucket under a steering, which hashes the tuples `hashed`.
    fn buckets<'a>(
        &self,
        steering: &'a Steering,
        hashed: fn(Tuple) -> Tuple,
    ) -> impl Iterator<Item = (u16, Bucket)> + use<'a> {
        let (steerer, from_zero) = (steering.steerer(), self.from_zero);
        let hash = |port| {
            let mut tuple = from_zero;
            match &mut tuple {
                Tuple::V4 { source, .. } => source.set_port(port),
                Tuple::V6 { source, .. } => source.set_port(port),
            }
            steerer.hash_of(&hashed(tuple))
        };
        let of_zero = hash(0);
        let bits = std::array::from_fn(|bit| hash(1 << bit) ^ of_zero);
        let left_out = self.left_out;
        added(bits, self.range.clone())
            .filter(move |(port, _)| Some(*port) != left_out)
            .map(move |(port, added)| (port, steering.table.bucket(of_zero ^ added)))
    }
}

/// The contribution of every port of a range to the hash; `bits` holds the contribution of each bit, lowest first.
pub(super) fn added(bits: [u32; 16], range: RangeInclusive<u16>) -> impl Iterator<Item = (u16, u32)> {
    let sum = |port: u16| {
        (0..16).fold(0, |sum, bit| {
            sum ^ bits[bit] & (u32::from(port >> bit) & 1).wrapping_neg()
        })
    };
    // From one port to the next the lowest bits change, up to the first that is zero.
    let changes: [u32; 17] = std::array::from_fn(|zeros| sum(((1_u32 << zeros) * 2 - 1) as u16));
    let mut added = sum(*range.start());
    range.map(move |port| {
        let own = added;
        added ^= changes[port.trailing_ones() as usize];
        (port, own)
    })
}

/// Error of planning ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The steering hashes addresses only.
    #[error(
        "2-tuple steering hashes addresses only, so every port lands on one bucket: plan client addresses instead, or \
         steer by the 4-tuple"
    )]
    PortsNotHashed,
    /// Client and server are of different address families.
    #[error(transparent)]
    Tuple(#[from] TupleError),
    /// No port could be named.
    #[error("no port from {start} to {end} can be bound: give a range within 1 to 65535, lower end first")]
    EmptyRange {
        /// Lower end given.
        start: u16,
        /// Upper end given.
        end: u16,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IndirectionTable, Key};

    fn steering(hash_fields: HashFields) -> Steering {
        Steering {
            key: Key::VERIFICATION,
            hash_fields,
            table: IndirectionTable::round_robin(128, 4).unwrap(),
            cpus: (0..4).collect(),
            generation: 0,
        }
    }

    fn plan(range: RangeInclusive<u16>, limit: Option<usize>) -> Result<PortPlan, PlanError> {
        let client = "10.11.2.2".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        ports(&steering(HashFields::FourTuple), client, server, range, limit)
    }

    #[test]
    fn every_port_but_zero_is_planned_once() {
        let mut planned = plan(0..=u16::MAX, None).unwrap().buckets.concat();
        planned.sort_unstable();
        assert_eq!(planned, (1..=u16::MAX).collect::<Vec<_>>());
    }

    #[test]
    fn a_limit_names_the_lowest_ports() {
        let all = plan(1024..=u16::MAX, None).unwrap();
        let few = plan(1024..=u16::MAX, Some(5)).unwrap();
        for (few, all) in few.buckets.iter().zip(&all.buckets) {
            assert_eq!(few[..], all[..5]);
        }
    }

    #[test]
    fn a_range_too_small_names_the_buckets_it_does_not_reach() {
        let plan = plan(4000..=4000, None).unwrap();
        let reached: Vec<usize> = (0..4)
            .filter(|bucket| !plan.buckets[*bucket].is_empty())
            .collect();
        assert_eq!((reached.len(), plan.unreached.len()), (1, 3));
        assert!(!plan.unreached.contains(&Bucket::new(reached[0] as u16)));
    }

    #[test]
    fn two_tuple_steering_is_refused_because_ports_do_not_matter() {
        let client = "10.11.2.2".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        let by_address = steering(HashFields::TwoTuple);
        let error = ports(&by_address, client, server, 1..=9, None).unwrap_err();
        assert_eq!(error, PlanError::PortsNotHashed);
        let both = paired_ports(&by_address, &by_address, client, server, 1..=9, None);
        assert_eq!(both, Err(PlanError::PortsNotHashed));
    }

    #[test]
    fn ranges_without_a_port_are_refused() {
        #[expect(clippy::reversed_empty_ranges)]
        let backwards = 9..=3;
        assert_eq!(
            plan(backwards, None),
            Err(PlanError::EmptyRange { start: 9, end: 3 })
        );
        assert_eq!(plan(0..=0, None), Err(PlanError::EmptyRange { start: 0, end: 0 }));
    }

    #[test]
    fn ends_of_different_families_are_refused() {
        let client = "::1".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        let error = ports(&steering(HashFields::FourTuple), client, server, 1..=9, None).unwrap_err();
        assert!(matches!(error, PlanError::Tuple(_)), "{error}");
    }

    #[test]
    fn a_client_on_the_servers_address_never_takes_the_servers_port() {
        let server: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let plan = ports(
            &steering(HashFields::FourTuple),
            server.ip(),
            server,
            8079..=8081,
            None,
        )
        .unwrap();
        let mut planned = plan.buckets.concat();
        planned.sort_unstable();
        assert_eq!(planned, [8079, 8081]);
    }
}
