//! Sorts a range of source ports by the bucket that a flow between two fixed ends reaches.

use super::addresses::by_bucket;
use crate::error::InputError;
use crate::fields::HashFields;
use crate::steering::Steering;
use crate::table::Bucket;
use crate::transform::Transform;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// The source ports that reach each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPlan {
    /// By bucket, the ports that reach it, ascending.
    pub buckets: Vec<Vec<u16>>,
    /// Buckets of the table that no port of the range reaches.
    pub unreached: Vec<Bucket>,
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
    transform: Transform,
) -> Result<PortPlan, InputError> {
    if steering.hash_fields == HashFields::TwoTuple {
        return Err(InputError(
            "2-tuple steering hashes addresses only, so every port lands on one bucket: plan client addresses \
             instead, or steer by the 4-tuple"
                .to_owned(),
        ));
    }
    // Port 0 shows whether the ends are of one family, and have one address.
    let from_zero =
        Tuple::new(SocketAddr::new(client, 0), server).map_err(|error| InputError(error.to_string()))?;
    let own_address = from_zero.source().ip() == from_zero.destination().ip();
    let (start, end) = range.into_inner();
    let bindable = start.max(1)..=end;
    if bindable.is_empty() {
        return Err(InputError(format!(
            "no port from {start} to {end} can be bound: give a range within 1 to 65535, lower end first"
        )));
    }
    let steerer = steering.steerer();
    let others = bindable.filter(|port| !own_address || *port != server.port());
    let members = others.filter_map(|port| {
        let tuple = Tuple::new(SocketAddr::new(client, port), server).ok()?;
        Some((port, steerer.bucket_of(&transform.of_tuple(&tuple))))
    });
    let limit = limit_per_bucket.unwrap_or(usize::MAX);
    let (buckets, unreached) = by_bucket(&steering.table, limit, members);
    Ok(PortPlan { buckets, unreached })
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

    fn plan(range: RangeInclusive<u16>, limit: Option<usize>) -> Result<PortPlan, InputError> {
        let client = "10.11.2.2".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        ports(
            &steering(HashFields::FourTuple),
            client,
            server,
            range,
            limit,
            Transform::Plain,
        )
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
        let error = ports(&by_address, client, server, 1..=9, None, Transform::Plain).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("2-tuple steering hashes addresses only"),
            "{error}"
        );
    }

    #[test]
    fn ranges_without_a_port_are_refused() {
        #[expect(clippy::reversed_empty_ranges)]
        let backwards = 9..=3;
        for (range, expected) in [
            (backwards, "no port from 9 to 3 can be bound"),
            (0..=0, "no port from 0 to 0 can be bound"),
        ] {
            let error = plan(range, None).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn ends_of_different_families_are_refused() {
        let client = "::1".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        let error = ports(
            &steering(HashFields::FourTuple),
            client,
            server,
            1..=9,
            None,
            Transform::Plain,
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("different address families"),
            "{error}"
        );
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
            Transform::Plain,
        )
        .unwrap();
        let mut planned = plan.buckets.concat();
        planned.sort_unstable();
        assert_eq!(planned, [8079, 8081]);
    }
}
