//! The program, run by the kernel over frames without a device, against the dissection and the hash of the other crates.

use super::*;
use corelane_packet::{Dissection, HashTypes, tunnel};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Toeplitz, Tuple};
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{IpAddr, SocketAddr};

const PASSED: u32 = 2;
const REDIRECTED: u32 = 4;

/// The program with a rule whose entries are the buckets, all on CPU 0; `None` where the kernel permits no programs.
struct Loaded {
    maps: Maps,
    program: OwnedFd,
    steering: Steering,
    inner: bool,
}

fn steering(key: Key, hash_fields: HashFields, size: usize) -> Steering {
    let entries = (0..size).map(|entry| Bucket::new(entry as u16));
    Steering {
        key,
        hash_fields,
        table: IndirectionTable::from_entries(entries.collect()).unwrap(),
        cpus: vec![0; size],
        generation: 0,
    }
}

impl Loaded {
    fn new(steering: Steering, inner: bool) -> Option<Loaded> {
        let mut maps = Maps::new()
            .inspect_err(|error| eprintln!("skipped: maps: {error}"))
            .ok()?;
        let set = maps.set("test", &steering, inner);
        set.inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        let program = maps.steers().expect("the kernel took the program of the CPUs");
        Some(Loaded {
            maps,
            program,
            steering,
            inner,
        })
    }

    fn set(&mut self, steering: Steering) {
        self.maps.set("test", &steering, self.inner).unwrap();
        self.steering = steering;
    }

    fn count(&self, place: u32) -> u64 {
        let counts = bpf::counts_of(&self.maps.counts, place, self.maps.possible);
        counts.unwrap().iter().sum()
    }

    /// Whether the kernel's program sends a frame to this bucket, or passes it on if there is none, and counts it once.
    fn sends(&self, frame: &[u8], bucket: Option<usize>) -> bool {
        let place = bucket.map_or(rule::NOT_HASHED, |bucket| bucket as u32);
        let before = self.count(place);
        let returned = bpf::test_run(&self.program, frame).unwrap();
        let expected = if bucket.is_some() { REDIRECTED } else { PASSED };
        returned == expected && self.count(place) == before + 1
    }

    /// The bucket that a device with this rule selects.
    fn bucket(&self, frame: &[u8]) -> Option<usize> {
        let outer = Dissection::of(frame).ok()?;
        let inner = Some(outer)
            .filter(|_| self.inner)
            .as_ref()
            .and_then(tunnel::inner);
        let types = HashTypes::of_fields(self.steering.hash_fields);
        let input = inner.unwrap_or(outer).rss_input(types).expect("IP is hashed");
        let hash = input.hash(&Toeplitz::new(&self.steering.key));
        Some(self.steering.table.bucket(hash.value).index())
    }
}

/// A key under which hashes are those under `key`, shifted right; of the upper bits nothing is known.
fn shifted(key: &Key, bits: usize) -> Key {
    let bit = |at: usize| {
        key.as_bytes()
            .get(at / 8)
            .map_or(0, |byte| byte >> (7 - at % 8) & 1)
    };
    let byte = |byte: usize| {
        (0..8).fold(0, |sum, at| {
            sum << 1 | (byte * 8 + at).checked_sub(bits).map_or(0, bit)
        })
    };
    Key::from_bytes(&(0..44).map(byte).collect::<Vec<u8>>()).unwrap()
}

const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// An Ethernet frame around a packet.
fn framed(tags: usize, packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let tags = [[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]]
        .into_iter()
        .take(tags)
        .flatten();
    ADDRESSES
        .into_iter()
        .chain(tags)
        .chain(ether_type)
        .chain(packet.iter().copied())
        .collect()
}

/// A header of UDP or TCP with these ports.
fn transport(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let rest = if protocol == 6 {
        &[0; 16][..]
    } else {
        &[0, 8, 0, 0]
    };
    [&ports, rest].concat()
}

/// An IPv4 header with this many words of options before its payload.
fn v4(ends: [[u8; 4]; 2], fragment: u16, options: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + 4 * usize::from(options);
    let total = ((header + payload.len()) as u16).to_be_bytes();
    let mut packet = vec![0x45 + options, 0, total[0], total[1], 0, 1];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.as_flattened());
    packet.resize(header, 1);
    packet.extend(payload);
    packet
}

/// An IPv6 header, extension headers of these kinds, and the payload.
fn v6(ends: [[u8; 16]; 2], extensions: &[(u8, Vec<u8>)], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let kinds: Vec<u8> = extensions
        .iter()
        .map(|(kind, _)| *kind)
        .chain([protocol])
        .collect();
    let chain: Vec<u8> = extensions
        .iter()
        .zip(&kinds[1..])
        .flat_map(|((_, rest), next)| [&[*next], &rest[..]].concat())
        .collect();
    let length = ((chain.len() + payload.len()) as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, length[0], length[1], kinds[0], 64];
    [&head, ends.as_flattened(), &chain, payload].concat()
}

#[test]
fn every_bit_of_the_hash_is_that_of_the_verification_suite() {
    let Some(mut loaded) = Loaded::new(steering(Key::VERIFICATION, HashFields::FourTuple, 4096), false)
    else {
        return;
    };
    let rows = include_str!("../../../rss/tests/vectors/rss.tsv").lines();
    let rows: Vec<Vec<&str>> = rows
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), 8);
    for (fields, column) in [(HashFields::TwoTuple, 4), (HashFields::FourTuple, 5)] {
        // A table of 4,096 entries shows 12 bits of the hash.
        for bits in [0, 12, 20] {
            loaded.set(steering(shifted(&Key::VERIFICATION, bits), fields, 4096));
            for row in &rows {
                let hash = u32::from_str_radix(row[column], 16).unwrap();
                let ports = [row[1], row[3]].map(|port| port.parse().unwrap());
                for protocol in [6, 17] {
                    let payload = transport(protocol, ports[0], ports[1]);
                    let packet = match [row[0], row[2]].map(|address| address.parse().unwrap()) {
                        [IpAddr::V4(from), IpAddr::V4(to)] => {
                            v4([from, to].map(|end| end.octets()), 0x4000, 0, protocol, &payload)
                        }
                        [IpAddr::V6(from), IpAddr::V6(to)] => {
                            v6([from, to].map(|end| end.octets()), &[], protocol, &payload)
                        }
                        _ => panic!("{row:?}"),
                    };
                    let bucket = (hash >> bits & 0xfff) as usize;
                    assert!(
                        loaded.sends(&framed(0, &packet), Some(bucket)),
                        "{row:?} {fields} {bits}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_rule_is_replaced_and_tables_of_any_size_are_looked_up() {
    let Some(mut loaded) = Loaded::new(steering(Key::VERIFICATION, HashFields::FourTuple, 128), false) else {
        return;
    };
    let ends = [[66, 9, 149, 187], [161, 142, 100, 80]];
    let frame = framed(0, &v4(ends, 0, 0, 17, &transport(17, 2794, 1766)));
    let tuple = Tuple::new(
        SocketAddr::from((ends[0], 2794)),
        SocketAddr::from((ends[1], 1766)),
    )
    .unwrap();
    for size in [1, 3, 100, 128, 4096] {
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let own = steering(Key::VERIFICATION, fields, size);
            let bucket = own.steerer().bucket_of(&tuple).index();
            loaded.set(own);
            assert!(loaded.sends(&frame, Some(bucket)), "{size} entries, {fields}");
        }
    }
}

#[test]
fn what_is_not_hashed_passes_and_is_counted() {
    let Some(loaded) = Loaded::new(steering(Key::VERIFICATION, HashFields::FourTuple, 128), true) else {
        return;
    };
    let arp = [&ADDRESSES[..], &[8, 6], &[0; 28]].concat();
    let cut = framed(0, &v4([[1; 4], [2; 4]], 0, 0, 17, &[0; 8]))[..30].to_vec();
    let three_tags = [&ADDRESSES[..], &[0x81, 0, 0, 1], &framed(2, &[0x45; 40])[12..]].concat();
    for frame in [arp, cut, three_tags] {
        assert!(loaded.sends(&frame, None), "{frame:02x?}");
    }
}

#[test]
fn behind_six_extension_headers_no_ports_are_read() {
    let Some(loaded) = Loaded::new(steering(Key::VERIFICATION, HashFields::FourTuple, 4096), false) else {
        return;
    };
    let ends = [[0x20; 16], [0xfe; 16]];
    let options = || (60, vec![0; 7]);
    for (extensions, has_ports) in [(6, true), (7, false)] {
        let chain: Vec<_> = std::iter::repeat_with(options).take(extensions).collect();
        let frame = framed(0, &v6(ends, &chain, 17, &transport(17, 4000, 53)));
        let without = framed(0, &v6(ends, &[], 58, &[0; 8]));
        let expected = if has_ports { &frame } else { &without };
        assert!(
            loaded.sends(&frame, loaded.bucket(expected)),
            "{extensions} headers"
        );
    }
}

#[test]
fn what_a_full_queue_loses_is_counted() {
    let Some(bed) = corelane_tests::namespaces(&corelane_tests::namespaces_plan()) else {
        return;
    };
    let cpu = corelane_host::cpus::allowed().unwrap().cpus[0];
    let own = Steering {
        cpus: vec![cpu],
        ..steering(Key::VERIFICATION, HashFields::TwoTuple, 1)
    };
    let Some(loaded) = Loaded::new(own, false) else {
        return;
    };
    // Room for one frame. The thread of the CPU, which this one shares, cannot run before the batch of 64 has ended.
    let arrives = bpf::load(ARRIVES, b"corelane_arrive\0", &loaded.maps.programs()[1]).unwrap();
    let queue = [1, arrives.as_raw_fd() as u32].map(u32::to_ne_bytes);
    bpf::update_map(&loaded.maps.cpus, cpu, queue.as_flattened()).unwrap();
    let running = bed.server.spawn(move || {
        corelane_host::pin::current_thread(cpu).unwrap();
        let frame = framed(0, &v4([[1; 4], [2; 4]], 0, 0, 17, &transport(17, 1, 2)));
        bpf::test_live(&loaded.program, &frame, 64).unwrap();
        loaded
    });
    let loaded = running.unwrap().join().unwrap();
    let counts = || loaded.maps.counts(1).unwrap();
    assert_eq!(counts().buckets, [64]);
    corelane_tests::until("a frame arrived", || counts().queue_full() < 64);
    assert_eq!(counts().queue_full(), 63);
    assert_eq!(counts().arrived[cpu as usize], 1);
}

/// A packet of either family, with options or extension headers, whole or a fragment.
fn packet(protocol: u8, payload: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![4 => Just(0_u16), 1 => Just(0x2000), 1 => Just(0x2001), 1 => Just(3)];
    let authentication = || {
        vec![4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1]
            .into_iter()
            .chain([9; 12])
            .collect::<Vec<u8>>()
    };
    let extension =
        (select(vec![0_u8, 43, 44, 51, 60, 135]), fragment.clone()).prop_map(move |(kind, field)| {
            let rest = match kind {
                44 => [&[0][..], &field.rotate_left(3).to_be_bytes(), &[0, 0, 0, 5]].concat(),
                51 => authentication(),
                _ => vec![0; 7],
            };
            (kind, rest)
        });
    let payload = std::rc::Rc::new(payload);
    let of_v4 = (any::<[[u8; 4]; 2]>(), fragment, 0..3_u8, any::<bool>());
    let of_v6 = (any::<[[u8; 16]; 2]>(), proptest::collection::vec(extension, 0..4));
    let other = payload.clone();
    prop_oneof![
        of_v4.prop_map(
            move |(ends, fragment, options, authenticated)| match authenticated {
                true => {
                    let header = [&[protocol], &authentication()[..], &payload].concat();
                    v4(ends, fragment, options, 51, &header)
                }
                false => v4(ends, fragment, options, protocol, &payload),
            }
        ),
        of_v6.prop_map(move |(ends, extensions)| v6(ends, &extensions, protocol, &other)),
    ]
}

/// A frame whose packet has ports, or none.
fn plain() -> BoxedStrategy<Vec<u8>> {
    (
        select(vec![6_u8, 17, 1, 58, 132]),
        any::<u16>(),
        any::<u16>(),
        0..3_usize,
    )
        .prop_flat_map(|(protocol, source, destination, tags)| {
            let packet = packet(protocol, transport(protocol, source, destination));
            packet.prop_map(move |packet| framed(tags, &packet))
        })
        .boxed()
}

/// A frame with a tunnel around another one, or around its packet.
fn tunnelled() -> BoxedStrategy<Vec<u8>> {
    let shapes = (plain(), 0..7_usize, 0..3_usize, 0..3_u8, 0_u8..8);
    shapes
        .prop_flat_map(|(frame, kind, tags, options, flags)| {
            let inner = Dissection::of(&frame).unwrap().network_offset();
            let ether_type = [frame[inner - 2], frame[inner - 1]];
            let udp = |port, header: &[u8], payload: &[u8]| {
                let length = (8 + header.len() + payload.len()) as u16;
                let ports = &transport(17, 40_000, port)[..4];
                [ports, &length.to_be_bytes(), &[0, 0], header, payload].concat()
            };
            let geneve = [options, 0, 0x65, 0x58, 0, 0, 7, 0];
            let options = vec![0x11; usize::from(options) * 4];
            let gre = [
                (flags & 4) << 5 | (flags & 3) << 4,
                0,
                ether_type[0],
                ether_type[1],
            ];
            let words = vec![0x22; gre[0].count_ones() as usize * 4];
            let (protocol, payload) = match kind {
                0 => (
                    if frame[inner] >> 4 == 6 { 41 } else { 4 },
                    frame[inner..].to_vec(),
                ),
                1 => (47, [&gre, &words[..], &frame[inner..]].concat()),
                2 => (47, [&[0, 0, 0x65, 0x58], &frame[..]].concat()),
                3 => (17, udp(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &frame)),
                4 => (17, udp(8472, &[8, 0, 0, 0, 0, 0, 7, 0], &frame)),
                5 => (17, udp(6081, &[&geneve[..], &options].concat(), &frame)),
                _ => (47, [&[0, 1, 8, 0], &frame[inner..]].concat()),
            };
            packet(protocol, payload).prop_map(move |packet| framed(tags, &packet))
        })
        .boxed()
}

#[test]
fn frames_of_every_shape_hash_as_their_dissection_says() {
    let loaded = [false, true]
        .map(|inner| Loaded::new(steering(Key::VERIFICATION, HashFields::FourTuple, 4096), inner));
    let [Some(outer), Some(inner)] = loaded else {
        return;
    };
    let changes = (
        proptest::option::weighted(0.3, any::<prop::sample::Index>()),
        any::<prop::sample::Index>(),
        any::<u8>(),
    );
    let frames = prop_oneof![plain(), tunnelled()];
    proptest!(ProptestConfig::with_cases(4_000), |(
        frame in frames,
        (cut, at, byte) in changes,
        is_changed in proptest::bool::weighted(0.3),
    )| {
        let mut frame = frame;
        if is_changed {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Some(cut) = cut {
            // The kernel takes no frame below an Ethernet header.
            frame.truncate(cut.index(frame.len()).max(14));
        }
        for loaded in [&outer, &inner] {
            let bucket = loaded.bucket(&frame);
            prop_assert!(loaded.sends(&frame, bucket), "inner {}: {bucket:?} {frame:02x?}", loaded.inner);
        }
    });
}
