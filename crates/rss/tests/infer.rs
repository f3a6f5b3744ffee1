//! Inference from made-up devices: the behaviour of each is recovered from few samples, or reported as unknown.

use crate::common::random::Draws;
use corelane_rss::infer::{Field, Relation, Sample, Verdict, contradicting, infer, infer_tolerating};
use corelane_rss::{Bucket, HashFields, HashType, IndirectionTable, Key, Protocol, Transform, Tuple, oracle};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A device: its settings and its actual behaviour.
struct Device {
    key: Key,
    relation: Relation,
    transform: Transform,
    initial: u32,
    /// Whether UDP ports are hashed, too.
    udp_ports: bool,
    table: IndirectionTable,
}

impl Device {
    fn new(random: &mut Draws) -> Device {
        let entries: Vec<_> = (0..128)
            .map(|_| Bucket::new((random.next() % 6) as u16))
            .collect();
        Device {
            key: random.key(),
            relation: Relation::Same,
            transform: Transform::Plain,
            initial: 0,
            udp_ports: true,
            table: IndirectionTable::from_entries(entries).unwrap(),
        }
    }

    fn hash(&self, tuple: &Tuple, protocol: Protocol) -> u32 {
        let four = match protocol {
            Protocol::Tcp => HashFields::FourTuple,
            Protocol::Udp if self.udp_ports => HashFields::FourTuple,
            _ => HashFields::TwoTuple,
        };
        let fields = HashType::of(tuple, four, protocol).fields();
        let mut input = tuple.input(fields).as_bytes().to_vec();
        let address = if input.len() < 32 { 4 } else { 16 };
        let (addresses, ports) = input.split_at_mut(2 * address);
        for pair in [addresses, ports] {
            let (source, destination) = pair.split_at_mut(pair.len() / 2);
            if self.transform == Transform::SymmetricSort && source > destination {
                source.swap_with_slice(destination);
            }
            for (a, b) in source.iter_mut().zip(destination) {
                (*a, *b) = match self.transform {
                    Transform::Plain | Transform::SymmetricSort => (*a, *b),
                    Transform::SymmetricXor => (*a ^ *b, *a ^ *b),
                    Transform::SymmetricOrXor => (*a | *b, *a ^ *b),
                };
            }
        }
        let key = self.relation.applied(&self.key).unwrap();
        oracle::toeplitz(&key, &input) ^ self.initial
    }

    fn sample(&self, tuple: Tuple, protocol: Protocol) -> Sample {
        let hash = self.hash(&tuple, protocol);
        Sample {
            tuple,
            protocol,
            hash: Some(hash),
            queue: Some(self.table.bucket(hash).index() as u16),
        }
    }

    /// Packets of every kind that a device may receive, with random addresses and ports.
    fn samples(&self, count: usize, random: &mut Draws) -> Vec<Sample> {
        let kinds = [Protocol::Tcp, Protocol::Udp, Protocol::Other];
        (0..count)
            .map(|number| {
                let tuple = if number % 2 == 0 {
                    any_v4(random)
                } else {
                    any_v6(random)
                };
                self.sample(tuple, kinds[number / 2 % 3])
            })
            .collect()
    }
}

fn any_v4(random: &mut Draws) -> Tuple {
    let mut end = || SocketAddr::from((Ipv4Addr::from(random.next() as u32), random.next() as u16));
    Tuple::new(end(), end()).unwrap()
}

fn any_v6(random: &mut Draws) -> Tuple {
    let mut end = || {
        let address = u128::from(random.next()) << 64 | u128::from(random.next()) | 1 << 127;
        SocketAddr::from((Ipv6Addr::from(address), random.next() as u16))
    };
    Tuple::new(end(), end()).unwrap()
}

const DIALECTS: [(Relation, Transform, u32); 9] = [
    (Relation::Same, Transform::Plain, 0),
    (Relation::BytesReversed, Transform::Plain, 0),
    (Relation::ShiftedLater(1), Transform::Plain, 0),
    (Relation::Same, Transform::Plain, u32::MAX),
    (Relation::BytesReversed, Transform::Plain, u32::MAX),
    (Relation::Same, Transform::Plain, 0x1234_5678),
    (Relation::Same, Transform::SymmetricXor, 0),
    (Relation::Same, Transform::SymmetricOrXor, 0),
    (Relation::Same, Transform::SymmetricSort, 0),
];

#[test]
fn every_dialect_is_recovered_from_fewer_than_1000_samples() {
    for seed in 0..3 {
        for (relation, transform, initial) in DIALECTS {
            for udp_ports in [false, true] {
                let mut random = Draws::new(seed);
                let device = Device {
                    relation,
                    transform,
                    initial,
                    udp_ports,
                    ..Device::new(&mut random)
                };
                let samples = device.samples(990, &mut random);
                let what =
                    format!("seed {seed}, {relation}, {transform}, {initial:#x}, UDP ports {udp_ports}");
                let found = infer(&samples, Some(&device.key));
                let table = found.table.unwrap();
                // By chance some entry may have no flow; the result reports that.
                let expected = [Verdict::Settled, Verdict::NotEnough][usize::from(table.unseen > 0)];
                assert_eq!(found.verdict, expected, "{what}: {:?}", found.needed);
                assert_eq!(table.period, 128, "{what}");
                for (seen, bucket) in table.entries.iter().zip(device.table.entries()) {
                    assert!(
                        seen.is_none_or(|queue| usize::from(queue) == bucket.index()),
                        "{what}"
                    );
                }
                assert_eq!(found.transform, Some(transform), "{what}");
                assert_eq!(found.relation, Some(relation), "{what}");
                assert_eq!(found.initial_value, Some(initial), "{what}");
                for kind in &found.kinds {
                    let ports = match kind.kind.protocol {
                        Protocol::Tcp => true,
                        Protocol::Udp => udp_ports,
                        Protocol::Other => false,
                    };
                    assert_eq!(kind.hashed.len(), if ports { 4 } else { 2 }, "{what}: {kind:?}");
                    assert!(kind.unknown.is_empty(), "{what}: {kind:?}");
                }
                // Without the given key the result is the same, except for the relation.
                let unknown = infer(&samples, None);
                assert_eq!((unknown.verdict, unknown.relation), (expected, None), "{what}");
            }
        }
    }
}

#[test]
fn the_key_found_hashes_packets_never_seen_as_the_device_does() {
    for (relation, transform, initial) in DIALECTS {
        let mut random = Draws::new(7);
        let device = Device {
            relation,
            transform,
            initial,
            ..Device::new(&mut random)
        };
        let found = infer(&device.samples(600, &mut random), None);
        assert!(found.key_is_enough, "{relation} {transform}: {found:?}");
        let copy = Device {
            key: found.key.unwrap(),
            relation: Relation::Same,
            table: device.table.clone(),
            ..device
        };
        for _ in 0..500 {
            for (tuple, protocol) in [
                (any_v4(&mut random), Protocol::Udp),
                (any_v6(&mut random), Protocol::Tcp),
            ] {
                assert_eq!(
                    copy.hash(&tuple, protocol),
                    device.hash(&tuple, protocol),
                    "{tuple}"
                );
            }
        }
    }
}

#[test]
fn few_samples_are_said_to_be_too_few() {
    let mut random = Draws::new(3);
    let device = Device::new(&mut random);
    for count in [0, 1, 2, 4] {
        let tuples: Vec<_> = (0..count).map(|_| any_v4(&mut random)).collect();
        let samples: Vec<_> = tuples
            .into_iter()
            .map(|tuple| device.sample(tuple, Protocol::Tcp))
            .collect();
        let found = infer(&samples, Some(&device.key));
        assert_eq!(found.verdict, Verdict::NotEnough, "{count}: {found:?}");
        assert_eq!((found.key, found.table), (None, None), "{count}");
    }
}

#[test]
fn what_never_varies_is_unknown_and_asked_for() {
    let mut random = Draws::new(4);
    let device = Device::new(&mut random);
    let server: SocketAddr = "10.11.2.1:8080".parse().unwrap();
    let samples: Vec<_> = (0..900)
        .map(|_| {
            let client = Ipv4Addr::from(0x0a0b_0000 | random.next() as u32 & 0xffff);
            let source = SocketAddr::from((client, random.next() as u16));
            device.sample(Tuple::new(source, server).unwrap(), Protocol::Tcp)
        })
        .collect();
    let found = infer(&samples, Some(&device.key));
    assert_eq!(found.verdict, Verdict::NotEnough);
    assert_eq!(found.kinds[0].hashed, [Field::SourceAddress, Field::SourcePort]);
    assert_eq!(
        found.kinds[0].unknown,
        [Field::DestinationAddress, Field::DestinationPort]
    );
    assert_eq!(found.initial_value, None);
    assert!(!found.key_is_enough);
    for needed in [
        "differ in the destination address",
        "differ in the destination port",
        "more of the source address",
    ] {
        assert!(
            found.needed.iter().any(|what| what.contains(needed)),
            "{needed}: {:?}",
            found.needed
        );
    }
    // The bits reported as settled are correct.
    for (first, last) in found.key_bits_settled {
        for bit in first..=last {
            let of = |key: &Key| key.as_bytes()[bit / 8] << (bit % 8) & 0x80;
            assert_eq!(of(found.key.as_ref().unwrap()), of(&device.key), "bit {bit}");
        }
    }
}

#[test]
fn hashes_that_are_no_toeplitz_hash_fit_nothing() {
    let mut random = Draws::new(5);
    let device = Device::new(&mut random);
    let mut samples = device.samples(900, &mut random);
    for sample in &mut samples {
        sample.hash = sample.hash.map(|hash| hash.wrapping_mul(0x9e37_79b9) | 1);
    }
    let found = infer(&samples, Some(&device.key));
    assert_eq!((found.verdict, found.key), (Verdict::NothingFits, None));
}

#[test]
fn of_queues_alone_the_dialect_of_a_given_key_and_the_table_are_told() {
    for (relation, transform, _) in DIALECTS {
        let mut random = Draws::new(6);
        let device = Device {
            relation,
            transform,
            ..Device::new(&mut random)
        };
        let mut samples = device.samples(990, &mut random);
        samples.iter_mut().for_each(|sample| sample.hash = None);
        let found = infer(&samples, Some(&device.key));
        assert_eq!(
            (found.relation, found.transform),
            (Some(relation), Some(transform)),
            "{found:?}"
        );
        assert_eq!(found.table.unwrap().period, 128);
    }
}

#[test]
fn of_four_queues_named_in_turn_the_bits_of_an_unknown_key_are_told() {
    let mut random = Draws::new(8);
    let table = IndirectionTable::round_robin(128, 4).unwrap();
    let device = Device {
        table,
        ..Device::new(&mut random)
    };
    let mut samples = device.samples(990, &mut random);
    samples.iter_mut().for_each(|sample| sample.hash = None);
    let found = infer(&samples, None);
    assert_eq!(found.verdict, Verdict::NotEnough);
    let (key, settled) = (found.key.unwrap(), found.key_bits_settled);
    // Bits 30 and 31 of the key's first window are the first that affect two low hash bits.
    assert_eq!(settled, [(30, 318)], "{:?}", found.needed);
    for bit in 30..=318 {
        let of = |key: &Key| key.as_bytes()[bit / 8] << (bit % 8) & 0x80;
        assert_eq!(of(&key), of(&device.key), "bit {bit}");
    }
}

#[test]
fn of_queues_of_an_irregular_table_and_an_unknown_key_nothing_is_guessed() {
    let mut random = Draws::new(9);
    let device = Device::new(&mut random);
    let mut samples = device.samples(990, &mut random);
    samples.iter_mut().for_each(|sample| sample.hash = None);
    let found = infer(&samples, None);
    assert_eq!(
        (found.verdict, found.key, found.table),
        (Verdict::NotEnough, None, None)
    );
    assert!(
        found.needed[0].contains("samples with hashes"),
        "{:?}",
        found.needed
    );
}

/// Falsifies `hashes` hashes and the queues of `queues` other samples; returns their positions.
fn spoil(samples: &mut [Sample], hashes: usize, queues: usize, random: &mut Draws) -> Vec<usize> {
    let mut spoilt = Vec::new();
    while spoilt.len() < hashes + queues {
        let place = random.next() as usize % samples.len();
        if spoilt.contains(&place) {
            continue;
        }
        let sample = &mut samples[place];
        if spoilt.len() < hashes {
            sample.hash = sample.hash.map(|hash| hash ^ (random.next() as u32 | 1));
        } else {
            sample.queue = sample.queue.map(|queue| queue + 1);
        }
        spoilt.push(place);
    }
    spoilt.sort_unstable();
    spoilt
}

#[test]
fn wrong_samples_are_named_and_the_others_settle_all_when_they_may_be_set_aside() {
    for (seed, (relation, transform, initial)) in (0..).zip(DIALECTS) {
        let mut random = Draws::new(seed);
        let device = Device {
            relation,
            transform,
            initial,
            ..Device::new(&mut random)
        };
        let mut samples = device.samples(990, &mut random);
        let spoilt = spoil(&mut samples, 12, 3, &mut random);
        let what = format!("seed {seed}, {relation}, {transform}, {initial:#x}");
        // Contradictions are tolerated only on request.
        assert_eq!(infer(&samples, None).verdict, Verdict::NothingFits, "{what}");
        assert_eq!(contradicting(&samples, 11), None, "{what}: 12 hashes are wrong");
        let found = infer_tolerating(&samples, Some(&device.key), 20);
        assert_eq!(found.set_aside, spoilt, "{what}");
        assert_eq!(found.samples, samples.len());
        assert!(found.key_is_enough, "{what}: {:?}", found.needed);
        assert_eq!(
            (found.relation, found.transform, found.initial_value),
            (Some(relation), Some(transform), Some(initial)),
            "{what}"
        );
        assert_eq!(found.table.unwrap().period, 128, "{what}");
    }
}

#[test]
fn samples_that_agree_are_never_set_aside_and_half_of_them_never_called_wrong() {
    let mut random = Draws::new(11);
    let (device, other) = (Device::new(&mut random), Device::new(&mut random));
    let samples = device.samples(300, &mut random);
    assert_eq!(contradicting(&samples, 100), Some(Vec::new()));
    assert_eq!(infer_tolerating(&samples, None, 100), infer(&samples, None));
    // Two devices mixed in equal parts: neither is the wrong one.
    let mut mixed = device.samples(300, &mut random);
    mixed.extend(other.samples(300, &mut random));
    assert_eq!(contradicting(&mixed, 600), None);
    let found = infer_tolerating(&mixed, None, 600);
    assert_eq!(
        (found.verdict, found.key, found.set_aside),
        (Verdict::NothingFits, None, Vec::new())
    );
    // Two samples of one flow, one of them wrong: the result cannot decide which.
    let mut two = device.samples(40, &mut random);
    two.retain(|sample| sample.protocol == Protocol::Tcp);
    two.truncate(2);
    two[1] = Sample {
        hash: two[0].hash.map(|hash| hash ^ 2),
        ..two[0]
    };
    let found = infer_tolerating(&two, None, 1);
    assert_eq!((found.key, found.set_aside), (None, Vec::new()));
}
