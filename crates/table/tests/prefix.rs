//! Prefix maps compared with a search by every length, alone and with concurrent readers.

use crate::common::value;
use corelane_table::{Address, Lookup, Placement, Prefetch, Prefix, PrefixMap, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn empty<A: Address>() -> PrefixMap<A> {
    PrefixMap::with_capacity(0, Placement::default()).unwrap()
}

/// The longest prefix in the oracle that contains the address, found by trying every length.
fn longest<A: Address>(oracle: &BTreeMap<Prefix<A>, Value>, address: A) -> Option<(Prefix<A>, Value)> {
    (0..=A::BITS).rev().find_map(|length| {
        let prefix = Prefix::new(address, length).unwrap();
        Some((prefix, *oracle.get(&prefix)?))
    })
}

/// A prefix of one of a few clustered addresses, so that prefixes nest; its length is within the family's.
fn prefix<A: Address>(bits: u64, length: u8) -> Prefix<A> {
    let address = A::from_high_bits(clustered(bits));
    Prefix::new(address, (u16::from(length) * u16::from(A::BITS) / 255) as u8).unwrap()
}

/// Two possible values for each byte of an address.
fn clustered(bits: u64) -> u128 {
    (0..16).fold(0, |address, byte| {
        address << 8 | [0x20, 0xa1][(bits >> byte & 1) as usize]
    })
}

fn behaves_like_a_search_by_length<A: Address>(changes: &[(u64, u8, Option<u16>)], queries: &[u64]) {
    let mut map = empty::<A>();
    let mut oracle = BTreeMap::new();
    let mut reader = map.reader();
    let keys: Vec<A> = queries
        .iter()
        .map(|bits| A::from_high_bits(clustered(*bits) ^ u128::from(bits >> 60)))
        .collect();
    for (bits, length, change) in changes {
        let prefix = prefix::<A>(*bits, *length);
        match change {
            Some(of) => {
                assert_eq!(
                    map.insert(prefix, value(*of)).unwrap(),
                    oracle.insert(prefix, value(*of))
                );
            }
            None => assert_eq!(map.remove(prefix), oracle.remove(&prefix)),
        }
        let mut answers = vec![None; keys.len()];
        reader.table().lookup(&keys, Prefetch::Ahead(5), &mut answers);
        for (key, answer) in keys.iter().zip(answers) {
            let expected = longest(&oracle, *key);
            assert_eq!(answer, expected.map(|(_, value)| value), "{key} after {prefix}");
            assert_eq!(map.table().get(*key), answer);
        }
    }
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), oracle);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn every_lookup_equals_a_search_by_length(
        changes in prop::collection::vec((any::<u64>(), any::<u8>(), prop::option::weighted(0.7, any::<u16>())), 1..40),
        queries in prop::collection::vec(any::<u64>(), 100),
    ) {
        behaves_like_a_search_by_length::<Ipv4Addr>(&changes, &queries);
        behaves_like_a_search_by_length::<Ipv6Addr>(&changes, &queries);
    }
}

#[test]
fn a_map_that_outgrows_its_nodes_keeps_every_prefix() {
    let mut map = empty::<Ipv4Addr>();
    let mut reader = map.reader();
    map.insert("0.0.0.0/0".parse().unwrap(), value(9)).unwrap();
    // One host in each of 70,000 /24 prefixes: more nodes than an empty map has room for.
    let host = |number: u32| Ipv4Addr::from_bits(0x0a00_0000 + (number << 8 | 7));
    for number in 0..70_000 {
        map.insert(Prefix::host(host(number)), value(number as u16 % 9))
            .unwrap();
    }
    let keys: Vec<_> = (0..70_000)
        .flat_map(|number| [host(number), Ipv4Addr::from_bits(host(number).to_bits() + 1)])
        .collect();
    let mut answers = vec![None; keys.len()];
    reader.table().lookup(&keys, Prefetch::default(), &mut answers);
    for (number, pair) in answers.chunks(2).enumerate() {
        assert_eq!(pair, [Some(value(number as u16 % 9)), Some(value(9))], "{number}");
    }
    let bytes = map.memory_bytes();
    for number in 0..70_000 {
        map.remove(Prefix::host(host(number))).unwrap();
    }
    assert!(map.memory_bytes() <= bytes);
    assert_eq!(map.table().get(host(5)), Some(value(9)));
}

/// Number of changes by the writer.
const CHANGES: u32 = 200_000;

/// The default prefix maps to 0, and a prefix of length `length` around an address maps to its length: a result that is
/// not the length of a prefix around the address is detected.
#[test]
fn readers_see_old_or_new_values_while_prefixes_come_and_go() {
    let mut map = empty::<Ipv6Addr>();
    map.insert("::/0".parse().unwrap(), value(0)).unwrap();
    let at = |number: u64, length: u8| {
        Prefix::new(
            Ipv6Addr::from_bits(u128::from(number % 64) << 88 | 0x2001 << 112),
            length,
        )
        .unwrap()
    };
    for number in 0..64 {
        map.insert(at(number, 44), value(44)).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (mut reader, done) = (map.reader(), &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let keys: Vec<_> = (0..256).map(|_| at(random.u64(..), 128).address()).collect();
                    let mut answers = vec![None; keys.len()];
                    reader.table().lookup(&keys, Prefetch::Ahead(16), &mut answers);
                    for (key, answer) in keys.iter().zip(answers) {
                        let length = answer.expect("the default prefix holds every address").get();
                        assert!(
                            [44, 48, 56, 57, 64, 128].contains(&length),
                            "{key} maps to {length}"
                        );
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..CHANGES {
            let length = [48, 56, 57, 64, 128][random.usize(..5)];
            let prefix = at(random.u64(..), length);
            if random.bool() {
                map.remove(prefix);
            } else {
                map.insert(prefix, value(u16::from(length))).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
