//! Every way of hashing and the planner reproduce the published values.

use crate::common::interpreter;
use crate::common::packet::{Transport, packet};
use crate::common::vectors::{post_buckets, post_wrong_ring, suite};
use corelane_rss::steer::{self, Families};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Toeplitz, Way, oracle, plan};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

fn steering(hash_fields: HashFields, buckets: usize) -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields,
        table: IndirectionTable::round_robin(buckets, buckets).unwrap(),
        cpus: (0..buckets as u32).collect(),
        generation: 0,
    }
}

#[test]
fn the_verification_suite_comes_out_of_the_oracle_and_of_every_way() {
    let ways = Way::available().into_iter();
    let ways: Vec<Toeplitz> = ways
        .map(|way| Toeplitz::with_way(&Key::VERIFICATION, way).unwrap())
        .collect();
    let rows = suite();
    assert_eq!(rows.len(), 8);
    for row in rows {
        for (fields, expected) in [
            (HashFields::TwoTuple, row.hash_2tuple),
            (HashFields::FourTuple, row.hash_4tuple),
        ] {
            let input = row.tuple.input(fields);
            let hash = oracle::toeplitz(&Key::VERIFICATION, input.as_bytes());
            assert_eq!(hash, expected, "{}", row.tuple);
            for toeplitz in &ways {
                let from_tuple = toeplitz.hash(&row.tuple, fields);
                let from_bytes = toeplitz.hash_input(input.as_bytes());
                assert_eq!(
                    (from_tuple, from_bytes),
                    (expected, expected),
                    "{}",
                    toeplitz.way()
                );
            }
        }
    }
}

/// With a table of 4,096 buckets in turn the program returns the low 12 bits of the hash.
#[test]
fn the_verification_suite_comes_out_of_the_steering_program() {
    for row in suite() {
        for (fields, expected) in [
            (HashFields::TwoTuple, row.hash_2tuple),
            (HashFields::FourTuple, row.hash_4tuple),
        ] {
            let program = steer::program(&steering(fields, 4096), Families::Both).unwrap();
            let packet = packet(&row.tuple, Transport::Udp, &[], &[], b"payload");
            let answer = interpreter::try_run(&program, &packet.bytes, packet.payload_offset);
            assert_eq!(answer, Ok(expected & 0xfff), "{}", row.tuple);
        }
    }
}

#[test]
fn the_planner_puts_the_posts_addresses_on_their_buckets() {
    let rows = post_buckets();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let pool = (0..=255).map(|host| IpAddr::from(Ipv4Addr::new(10, 11, 2, host)));
        let steerer = steering(HashFields::TwoTuple, row.buckets).steerer();
        let plan = plan::addresses(
            &steerer,
            SocketAddr::new(row.server, 8080),
            pool,
            4000,
            None,
            corelane_rss::Transform::Plain,
        );
        for (bucket, addresses) in plan.buckets.iter().enumerate() {
            let expected = bucket == row.bucket.index();
            assert_eq!(
                addresses.contains(&row.client),
                expected,
                "{} of {}",
                row.client,
                row.buckets
            );
        }
        let input = [row.client, row.server].map(|address| match address {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(_) => unreachable!("the posts' addresses are IPv4"),
        });
        assert_eq!(
            oracle::toeplitz(&Key::VERIFICATION, &input.concat()),
            row.hash_2tuple
        );
    }
}

#[test]
fn the_frames_of_the_wrong_ring_post_are_all_on_another_ring_than_their_hash_names() {
    let rows = post_wrong_ring();
    assert_eq!(rows.len(), 9);
    let table = IndirectionTable::round_robin(128, 4).unwrap();
    for (hash, ring, expected) in rows {
        assert_eq!(table.bucket(hash), Bucket::new(expected as u16));
        assert_ne!(table.bucket(hash).index(), ring);
    }
}
