//! For random keys, tables and tuples the oracle, the compiled hash and the steering program agree, and every plan has
//! its documented properties.

use crate::common::interpreter;
use crate::common::packet::{Transport, packet};
use crate::common::random;
use corelane_rss::steer::{self, Families};
use corelane_rss::{Bucket, HashFields, Key, Steering, Toeplitz, Tuple, oracle, plan};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// The bucket by definition: the oracle's hash, its low bits, the entry.
fn oracle_bucket(steering: &Steering, tuple: &Tuple) -> Bucket {
    let hash = oracle::toeplitz(&steering.key, tuple.input(steering.hash_fields).as_bytes());
    steering.table.entries()[hash as usize % steering.table.size()]
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        Just(Transport::Udp),
        (0..=10_usize).prop_map(|words| Transport::Tcp { options: 4 * words })
    ]
}

/// Up to five extension headers of the kinds that may precede UDP and TCP, hop-by-hop only first, up to 40 bytes each.
fn extensions() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let header = |kinds: &'static [u8]| {
        let body = (0..5_usize).prop_flat_map(|units| prop::collection::vec(any::<u8>(), 6 + 8 * units));
        (prop::sample::select(kinds), body).prop_map(|(kind, body)| {
            let length = if kind == 44 { 6 } else { body.len() };
            (kind, body[..length].to_vec())
        })
    };
    let first = prop::option::of(header(&[0]));
    let others = prop::collection::vec(header(&[43, 44, 60, 135, 139, 140]), 0..=4);
    (first, others).prop_map(|(first, others)| first.into_iter().chain(others).collect())
}

/// IPv4 options of whole words.
fn options() -> impl Strategy<Value = Vec<u8>> {
    (0..=10_usize).prop_flat_map(|words| prop::collection::vec(any::<u8>(), 4 * words))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn oracle_compiled_hash_and_program_name_the_same_bucket(
        steering in random::steering(256),
        tuple in random::tuple(),
        transport in transport(),
        options in options(),
        extensions in extensions(),
        payload in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let expected = oracle_bucket(&steering, &tuple);
        prop_assert_eq!(steering.steerer().bucket_of(&tuple), expected);

        let own = match tuple {
            Tuple::V4 { .. } => Families::V4,
            Tuple::V6 { .. } => Families::V6,
        };
        let packet = packet(&tuple, transport, &options, &extensions, &payload);
        for families in [own, Families::Both] {
            let program = steer::program(&steering, families).unwrap();
            let answer = interpreter::try_run(&program, &packet.bytes, packet.payload_offset);
            prop_assert_eq!(answer, Ok(expected.index() as u32), "{:?}", families);
        }
    }

    #[test]
    fn the_compiled_hash_is_the_oracles_for_bytes_of_any_length(
        key in random::key(),
        input in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        prop_assert_eq!(Toeplitz::new(&key).hash_input(&input), oracle::toeplitz(&key, &input));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn programs_of_large_tables_answer_every_entry_or_are_refused_with_both_numbers(
        steering in random::steering(4096),
        tuples in prop::collection::vec(random::tuple(), 50),
    ) {
        match steer::program(&steering, Families::Both) {
            Ok(program) => for tuple in tuples {
                let packet = packet(&tuple, Transport::Udp, &[], &[], &[]);
                let answer = interpreter::try_run(&program, &packet.bytes, packet.payload_offset);
                prop_assert_eq!(answer, Ok(oracle_bucket(&steering, &tuple).index() as u32));
            },
            Err(error @ steer::SteerError::Remainder { .. }) => panic!("{error}"),
            Err(steer::SteerError::TooLong { needed, .. }) => {
                prop_assert!(needed > steer::MOST_INSTRUCTIONS);
                prop_assert!(steering.table.buckets() > 256, "tables of 256 buckets always fit");
            }
        }
    }

    #[test]
    fn a_port_plan_names_every_port_of_the_range_on_its_bucket_and_no_other(
        steering in random::steering(1024),
        (client, server) in random::ends(),
        (start, length) in (1_u16.., 0_u16..3000),
        limit in prop::option::of(0_usize..40),
    ) {
        let steering = Steering { hash_fields: HashFields::FourTuple, ..steering };
        let range = start..=start.saturating_add(length);
        let bucket = |port| {
            oracle_bucket(&steering, &Tuple::new(SocketAddr::new(client, port), server).unwrap())
        };
        let expected = by_bucket(&steering, range.clone(), limit, bucket);
        let plan = plan::ports(&steering, client, server, range, limit, corelane_rss::Transform::Plain).unwrap();
        prop_assert_eq!(&plan.buckets, &expected);
        prop_assert_eq!(&plan.unreached, &without_any(&steering, &expected));
    }

    #[test]
    fn an_address_plan_names_every_address_of_the_pool_on_its_bucket_and_no_other(
        steering in random::steering(64),
        (server, port) in (random::ends(), any::<u16>()),
        pool in prop::collection::vec(random::ends(), 1..300),
    ) {
        let (_, server) = server;
        let pool: Vec<IpAddr> = pool.into_iter().map(|(address, _)| address).collect();
        let same_family: Vec<IpAddr> = pool
            .iter()
            .copied()
            .filter(|address| address.is_ipv4() == server.is_ipv4() && *address != server.ip())
            .collect();
        let mut expected = vec![Vec::new(); steering.table.buckets()];
        for address in same_family {
            let tuple = Tuple::new(SocketAddr::new(address, port), server).unwrap();
            expected[oracle_bucket(&steering, &tuple).index()].push(address);
        }
        let plan = plan::addresses(&steering.steerer(), server, pool, port, None, corelane_rss::Transform::Plain);
        prop_assert_eq!(&plan.buckets, &expected);
        prop_assert_eq!(&plan.unreached, &without_any(&steering, &expected));
    }
}

/// A port plan by definition: try every port.
fn by_bucket(
    steering: &Steering,
    range: std::ops::RangeInclusive<u16>,
    limit: Option<usize>,
    bucket: impl Fn(u16) -> Bucket,
) -> Vec<Vec<u16>> {
    let mut buckets = vec![Vec::new(); steering.table.buckets()];
    for port in range {
        buckets[bucket(port).index()].push(port);
    }
    for ports in &mut buckets {
        ports.truncate(limit.unwrap_or(usize::MAX));
    }
    buckets
}

/// The buckets that the table contains and the plan leaves empty.
fn without_any<T>(steering: &Steering, plan: &[Vec<T>]) -> Vec<Bucket> {
    let buckets = (0..steering.table.buckets() as u16).map(Bucket::new);
    buckets
        .filter(|bucket| steering.table.entries().contains(bucket) && plan[bucket.index()].is_empty())
        .collect()
}

/// With the verification suite's key the 16 bits of the source port have full rank on the low 7, 9 and 11 hash bits, so
/// a port exists for every entry.
#[test]
fn with_the_verification_key_every_entry_of_common_tables_has_ports() {
    for size in [128, 512, 2048] {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: corelane_rss::IndirectionTable::round_robin(size, size).unwrap(),
            cpus: (0..size as u32).collect(),
            generation: 0,
        };
        let client = "10.11.2.2".parse().unwrap();
        let server = "10.11.2.1:8080".parse().unwrap();
        let forward = plan::ports(
            &steering,
            client,
            server,
            1..=u16::MAX,
            Some(1),
            corelane_rss::Transform::Plain,
        )
        .unwrap();
        assert_eq!(forward.unreached, [], "{size} entries");
    }
}
