//! Every way of hashing on this CPU equals the oracle on millions of random inputs, single and in batches.

use crate::common::random::Draws;
use corelane_rss::{HashFields, Key, Toeplitz, Tuple, Way, oracle};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Random inputs per kind of tuple; there are four kinds.
const INPUTS: usize = 500_000;
/// Inputs hashed with one key.
const INPUTS_A_KEY: usize = 2_000;

/// The ways that this CPU supports; prints those that it lacks.
fn ways() -> Vec<Way> {
    let available = Way::available();
    for way in Way::ALL.into_iter().filter(|way| !available.contains(way)) {
        let reason = Toeplitz::with_way(&Key::VERIFICATION, way).unwrap_err();
        eprintln!("skipped: {reason}");
    }
    available
}

/// Hashes random inputs of `N` bytes one by one and in batches of every length up to 130, by every way.
fn equal_the_oracle<const N: usize>(seed: u64) {
    let mut draws = Draws::new(seed);
    for _ in 0..INPUTS / INPUTS_A_KEY {
        let key = draws.key();
        let inputs: Vec<[u8; N]> = (0..INPUTS_A_KEY).map(|_| draws.bytes()).collect();
        let expected: Vec<u32> = inputs.iter().map(|input| oracle::toeplitz(&key, input)).collect();
        for way in ways() {
            let toeplitz = Toeplitz::with_way(&key, way).unwrap();
            let single: Vec<u32> = inputs.iter().map(|input| toeplitz.hash_input(input)).collect();
            assert_eq!(single, expected, "{way}, seed {seed}, {key}");

            let mut batched = vec![0; INPUTS_A_KEY];
            let (mut from, mut length) = (0, draws.next() as usize % 130);
            while from < INPUTS_A_KEY {
                let range = from..(from + length).min(INPUTS_A_KEY);
                toeplitz.hash_inputs(&inputs[range.clone()], &mut batched[range]);
                from += length;
                length = (length + 1) % 131;
            }
            assert_eq!(batched, expected, "{way} in batches, seed {seed}, {key}");
        }
    }
}

#[test]
fn every_way_equals_the_oracle_on_ipv4_2tuples() {
    equal_the_oracle::<8>(1);
}

#[test]
fn every_way_equals_the_oracle_on_ipv4_4tuples() {
    equal_the_oracle::<12>(2);
}

#[test]
fn every_way_equals_the_oracle_on_ipv6_2tuples() {
    equal_the_oracle::<32>(3);
}

#[test]
fn every_way_equals_the_oracle_on_ipv6_4tuples() {
    equal_the_oracle::<36>(4);
}

#[test]
fn every_way_hashes_tuples_of_mixed_families_as_the_oracle_does() {
    let mut draws = Draws::new(5);
    for round in 0..1_000 {
        let key = draws.key();
        let tuples: Vec<Tuple> = (0..round % 150).map(|_| draws.tuple()).collect();
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let expected: Vec<u32> = tuples
                .iter()
                .map(|tuple| oracle::toeplitz(&key, tuple.input(fields).as_bytes()))
                .collect();
            for way in ways() {
                let toeplitz = Toeplitz::with_way(&key, way).unwrap();
                let single: Vec<u32> = tuples.iter().map(|tuple| toeplitz.hash(tuple, fields)).collect();
                assert_eq!(single, expected, "{way}, {fields}, {key}");
            }
        }
    }
}

#[test]
fn of_slices_that_differ_in_length_the_rest_is_left_alone() {
    let inputs = [[7; 12]; 40];
    for way in ways() {
        let toeplitz = Toeplitz::with_way(&Key::VERIFICATION, way).unwrap();
        for (given, room) in [(40, 35), (35, 40), (0, 40), (40, 0)] {
            let mut hashes = vec![0xdead_beef; room];
            toeplitz.hash_inputs(&inputs[..given], &mut hashes);
            let hashed = given.min(room);
            assert!(
                hashes[..hashed]
                    .iter()
                    .all(|hash| *hash == toeplitz.hash_input(&inputs[0]))
            );
            assert!(hashes[hashed..].iter().all(|hash| *hash == 0xdead_beef));
        }
    }
}

#[test]
fn the_way_chosen_is_the_fastest_available_and_a_way_asked_for_is_the_one_that_runs() {
    assert_eq!(Toeplitz::new(&Key::VERIFICATION).way(), Way::available()[0]);
    for way in ways() {
        assert_eq!(Toeplitz::with_way(&Key::VERIFICATION, way).unwrap().way(), way);
    }
}

#[test]
fn flow_label_and_scope_of_an_ipv6_address_do_not_change_the_hash() {
    let [plain, labelled] = [(0, 0), (0xfffff, 7)].map(|(label, scope)| Tuple::V6 {
        source: std::net::SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, label, scope),
        destination: std::net::SocketAddrV6::new(Ipv6Addr::LOCALHOST, 2, label, scope),
    });
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    assert_eq!(
        toeplitz.hash(&plain, HashFields::FourTuple),
        toeplitz.hash(&labelled, HashFields::FourTuple)
    );
}

#[test]
fn mapped_addresses_hash_as_the_ipv4_addresses_they_map() {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let (source, destination) = (Ipv4Addr::new(66, 9, 149, 187), Ipv4Addr::new(161, 142, 100, 80));
    let mapped = Tuple::new(
        SocketAddr::new(source.to_ipv6_mapped().into(), 2794),
        SocketAddr::new(destination.to_ipv6_mapped().into(), 1766),
    );
    assert_eq!(
        toeplitz.hash(&mapped.unwrap(), HashFields::FourTuple),
        0x51cc_c178
    );
}
