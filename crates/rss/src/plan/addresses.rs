//! Sorts a pool of client addresses by the bucket that each reaches.

use crate::steering::Steerer;
use crate::table::{Bucket, IndirectionTable};
use crate::transform::Transform;
use crate::tuple::{Tuple, same_address};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The client addresses that reach each bucket of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPlan {
    /// By bucket, the addresses that reach it, in the order of the pool.
    pub buckets: Vec<Vec<IpAddr>>,
    /// Buckets of the table that no address of the pool reaches.
    pub unreached: Vec<Bucket>,
    /// Number of addresses skipped because they are not of the server's family.
    pub other_family: u64,
}

/// Sorts the addresses of `pool` by the bucket that their packets from `source_port` to `server` reach.
///
/// The server's own address is skipped. `limit_per_bucket` limits the addresses per bucket; the pool is then read only
/// until every bucket of the table has that many. 2-tuple steering ignores the ports.
pub fn addresses(
    steerer: &Steerer,
    server: SocketAddr,
    pool: impl IntoIterator<Item = IpAddr>,
    source_port: u16,
    limit_per_bucket: Option<usize>,
    transform: Transform,
) -> AddressPlan {
    let mut other_family = 0;
    let others = |address: &IpAddr| !same_address(*address, server.ip());
    let members = pool.into_iter().filter(others).filter_map(|address| {
        let tuple = Tuple::new(SocketAddr::new(address, source_port), server);
        other_family += u64::from(tuple.is_err());
        Some((address, steerer.bucket_of(&transform.of_tuple(&tuple.ok()?))))
    });
    let limit = limit_per_bucket.unwrap_or(usize::MAX);
    let (buckets, unreached) = by_bucket(steerer.table(), limit, members);
    AddressPlan {
        buckets,
        unreached,
        other_family,
    }
}

/// By bucket, the first `limit` members that reach it, and the named buckets that none reaches. Reading stops when
/// every named bucket has `limit` members.
pub(super) fn by_bucket<T>(
    table: &IndirectionTable,
    limit: usize,
    mut members: impl Iterator<Item = (T, Bucket)>,
) -> (Vec<Vec<T>>, Vec<Bucket>) {
    let mut buckets: Vec<Vec<T>> = (0..table.buckets()).map(|_| Vec::new()).collect();
    let mut named = named_buckets(table.entries());
    let mut wanting = if limit == 0 { 0 } else { named.len() };
    while wanting > 0
        && let Some((member, bucket)) = members.next()
    {
        let found = &mut buckets[bucket.index()];
        if found.len() < limit {
            found.push(member);
            wanting -= usize::from(found.len() == limit);
        }
    }
    named.retain(|bucket| buckets[bucket.index()].is_empty());
    (buckets, named)
}

/// The buckets that at least one entry names, in order.
pub(super) fn named_buckets(entries: &[Bucket]) -> Vec<Bucket> {
    let mut named = entries.to_vec();
    named.sort_unstable();
    named.dedup();
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashFields, IndirectionTable, Key, Steering};
    use std::net::Ipv4Addr;

    fn steerer(buckets: usize) -> Steerer {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::TwoTuple,
            table: IndirectionTable::round_robin(128, buckets).unwrap(),
            cpus: (0..buckets as u32).collect(),
            generation: 0,
        };
        steering.steerer()
    }

    fn pool() -> impl Iterator<Item = IpAddr> {
        (0..=255).map(|host| Ipv4Addr::new(10, 11, 2, host).into())
    }

    fn server() -> SocketAddr {
        "10.11.2.1:8080".parse().unwrap()
    }

    #[test]
    fn without_a_limit_every_address_but_the_servers_is_planned_once() {
        let plan = addresses(&steerer(8), server(), pool(), 4000, None, Transform::Plain);
        let mut planned: Vec<IpAddr> = plan.buckets.concat();
        planned.sort();
        let expected: Vec<IpAddr> = pool().filter(|address| *address != server().ip()).collect();
        assert_eq!(planned, expected);
        assert!(plan.unreached.is_empty());
    }

    #[test]
    fn a_limit_fills_every_bucket_and_stops_reading_the_pool() {
        let endless = (0_u32..).map(|host| Ipv4Addr::from(host).into());
        let plan = addresses(&steerer(8), server(), endless, 4000, Some(3), Transform::Plain);
        let counts: Vec<usize> = plan.buckets.iter().map(Vec::len).collect();
        assert_eq!(counts, [3; 8]);
    }

    #[test]
    fn a_limit_of_none_at_all_plans_nothing() {
        let plan = addresses(&steerer(2), server(), pool(), 4000, Some(0), Transform::Plain);
        assert_eq!(plan.buckets, [const { Vec::<IpAddr>::new() }; 2]);
    }

    #[test]
    fn a_pool_too_small_names_the_buckets_it_does_not_reach() {
        let one = "10.11.2.3".parse().unwrap();
        let plan = addresses(&steerer(4), server(), [one], 4000, None, Transform::Plain);
        assert_eq!(plan.buckets, [vec![one], vec![], vec![], vec![]]);
        assert_eq!(plan.unreached, [1, 2, 3].map(Bucket::new));
    }

    #[test]
    fn addresses_of_the_other_family_are_counted_not_planned() {
        let mixed = ["::1".parse().unwrap(), "10.11.2.3".parse().unwrap()];
        let plan = addresses(&steerer(4), server(), mixed, 4000, None, Transform::Plain);
        assert_eq!(plan.other_family, 1);
        assert_eq!(plan.buckets.concat(), [mixed[1]]);
    }
}
