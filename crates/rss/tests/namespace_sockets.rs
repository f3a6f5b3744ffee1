//! Tests that need a network namespace: the kernel runs the steering program on datagrams with exactly the tuples of
//! the RSS verification suite, on packets with IPv6 extension headers, which only a privileged process may send, and on
//! datagrams that arrive in fragments.
//!
//! The loopback device of the namespace has the suite's addresses. Without privilege the namespace belongs to a user
//! namespace, which only a process with one thread can enter, so these tests have their own `main`.

mod common;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("skipped: socket steering is Linux's");
}

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = common::namespace::enter() {
        eprintln!("skipped: no network namespace can be entered here ({error})");
        return;
    }
    linux::prepare();
    for (name, test) in linux::TESTS {
        test();
        println!("test {name} ... ok");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::common::namespace::{LOOPBACK, set_loopback_mtu, set_up_loopback};
    use crate::common::packet::{Packet, Transport, packet};
    use crate::common::random::Draws;
    use crate::common::sockets::{self, PATIENCE, group};
    use crate::common::vectors::suite;
    use corelane_rss::steer::{self, Families, Instruction};
    use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
    use socket2::{Domain, Protocol, SockFilter, Socket, Type};
    use std::fs;
    use std::io::Read;
    use std::net::{Ipv6Addr, SocketAddr};

    pub const TESTS: [(&str, fn()); 6] = [
        ("the_kernel_agrees_for_random_keys_tables_and_fields", || {
            sockets::random_steerings_meet_the_oracle(0xbed);
        }),
        (
            "the_kernel_computes_every_byte_of_every_published_hash",
            the_kernel_computes_every_byte_of_every_published_hash,
        ),
        (
            "ipv6_extension_headers_are_stepped_over",
            ipv6_extension_headers_are_stepped_over,
        ),
        (
            "datagrams_in_fragments_reach_the_bucket_of_their_ports",
            datagrams_in_fragments_reach_the_bucket_of_their_ports,
        ),
        (
            "ports_behind_every_extension_header_that_the_kernel_accepts_are_hashed",
            ports_behind_every_extension_header_that_the_kernel_accepts_are_hashed,
        ),
        (
            "other_protocols_have_no_group_to_steer",
            other_protocols_have_no_group_to_steer,
        ),
    ];

    /// Adds the addresses of the suite to the loopback device.
    pub fn prepare() {
        let ends = suite()
            .into_iter()
            .flat_map(|row| [row.tuple.source(), row.tuple.destination()]);
        set_up_loopback(ends.map(|end| end.ip()).filter(|address| !address.is_multicast()));
    }

    /// Eight bits at a time: a group has one socket for each value of a byte of the hash.
    const BUCKETS: u16 = 256;

    fn the_kernel_computes_every_byte_of_every_published_hash() {
        let rows = suite();
        assert_eq!(rows.len(), 8);
        for row in rows {
            for (fields, hash) in [
                (HashFields::TwoTuple, row.hash_2tuple),
                (HashFields::FourTuple, row.hash_4tuple),
            ] {
                for shift in [0, 8, 16, 24] {
                    let byte = (hash >> shift & 0xff) as u16;
                    if row.tuple.destination().ip().is_multicast() {
                        filter_keeps_as_many_bytes(&row.tuple, fields, shift, byte);
                    } else {
                        group_receives_at(&row.tuple, fields, shift, byte);
                    }
                }
            }
        }
    }

    fn ipv6_extension_headers_are_stepped_over() {
        let steering = sockets::steering(HashFields::FourTuple, sockets::round_robin(128, 8));
        for kind in [Type::DGRAM, Type::STREAM] {
            let group = group(&steering, kind, sockets::LOOPBACK_V6, Families::V6);
            for (hop_by_hop, destination) in [(1, 1), (2, 1), (1, 3)] {
                let sources = sockets::ipv6_sources(kind, 100).inspect(|socket| {
                    sockets::send_ipv6_extensions(socket, hop_by_hop, destination).unwrap();
                });
                sockets::sources_meet_the_oracle(&steering, &group, sockets::LOOPBACK_V6, sources);
            }
        }
    }

    fn datagrams_in_fragments_reach_the_bucket_of_their_ports() {
        const DATAGRAMS: u32 = 100;
        let steering = sockets::steering(HashFields::FourTuple, sockets::round_robin(128, 8));
        set_loopback_mtu(1500);
        let v4 = group(&steering, Type::DGRAM, sockets::LOOPBACK_V4, Families::V4);
        let sources = sockets::ipv4_sources(Type::DGRAM, DATAGRAMS);
        sockets::sources_meet_the_oracle(&steering, &v4, sockets::LOOPBACK_V4, sources);
        let v6 = group(&steering, Type::DGRAM, sockets::LOOPBACK_V6, Families::V6);
        let sources = sockets::ipv6_sources(Type::DGRAM, DATAGRAMS);
        sockets::sources_meet_the_oracle(&steering, &v6, sockets::LOOPBACK_V6, sources);
        set_loopback_mtu(65_536);
        assert_eq!([reassembled_v4(), reassembled_v6()], [u64::from(DATAGRAMS); 2]);
    }

    /// Datagrams that this namespace reassembled: `Ip: … ReasmOKs …` above the line of its values.
    fn reassembled_v4() -> u64 {
        let counters = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let mut lines = counters.lines().filter(|line| line.starts_with("Ip: "));
        let mut next = || lines.next().unwrap().split(' ');
        let (names, values) = (next(), next());
        let mut found = names.zip(values).filter(|(name, _)| *name == "ReasmOKs");
        found.next().unwrap().1.parse().unwrap()
    }

    fn reassembled_v6() -> u64 {
        let counters = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
        let mut values = counters
            .lines()
            .filter_map(|line| line.strip_prefix("Ip6ReasmOKs"));
        values.next().unwrap().trim().parse().unwrap()
    }

    /// Types and bodies of the headers: hop-by-hop and destination options (an option to skip, as in
    /// [`sockets::send_ipv6_extensions`]), routing (a type for experiments, RFC 4727, with no segment left), and a
    /// fragment header on a whole packet (RFC 6946). Those for mobility, host identity and shim6 need what few kernels
    /// have, and so does the authentication header.
    const OPTIONS: [u8; 6] = [0x1e, 4, 0, 0, 0, 0];
    const HOP_BY_HOP: (u8, [u8; 6]) = (0, OPTIONS);
    const DESTINATION: (u8, [u8; 6]) = (60, OPTIONS);
    const ROUTING: (u8, [u8; 6]) = (43, [253, 0, 0, 0, 0, 0]);
    const FRAGMENT: (u8, [u8; 6]) = (44, [0, 0, 0, 0, 0, 7]);

    fn ports_behind_every_extension_header_that_the_kernel_accepts_are_hashed() {
        let steering = sockets::steering(HashFields::FourTuple, sockets::round_robin(128, 8));
        let group = group(&steering, Type::DGRAM, sockets::LOOPBACK_V6, Families::V6);
        let server = SocketAddr::new(sockets::LOOPBACK_V6.ip(), sockets::port(&group[0]));
        let raw = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW))).unwrap();
        let mut draws = Draws::new(0x6_e47);
        for headers in [
            &[][..],
            &[HOP_BY_HOP],
            &[ROUTING],
            &[FRAGMENT],
            &[ROUTING, FRAGMENT],
            &[HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, DESTINATION],
        ] {
            for _ in 0..50 {
                let host = u128::from(draws.next()) << 64 | u128::from(draws.next());
                let client = Ipv6Addr::from(0xfd << 120 | host & !(0xff << 120));
                let client = SocketAddr::new(client.into(), (1 + draws.next() % 65_535) as u16);
                let tuple = Tuple::new(client, server).unwrap();
                let bytes = datagram(&tuple, headers, draws.next() as u32);
                raw.send_to(&bytes, &SocketAddr::new(server.ip(), 0).into())
                    .unwrap();
                let bucket = sockets::oracle_bucket(&steering, &tuple);
                let mut payload = [0; 8];
                let length = (&group[bucket.index()])
                    .read(&mut payload)
                    .unwrap_or_else(|error| {
                        panic!("{tuple} behind {headers:?} did not reach bucket {bucket}: {error}")
                    });
                assert_eq!(payload[..length], client.port().to_be_bytes(), "{tuple}");
            }
        }
    }

    /// A datagram as it is on the wire, with its source port as payload, and `label` as traffic class and flow label.
    fn datagram(tuple: &Tuple, headers: &[(u8, [u8; 6])], label: u32) -> Vec<u8> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(kind, body)| (*kind, body.to_vec()))
            .collect();
        let payload = tuple.source().port().to_be_bytes();
        let Packet {
            mut bytes,
            payload_offset,
        } = packet(tuple, Transport::Udp, &[], &headers, &payload);
        let version = 0x6000_0000 | label & 0x0fff_ffff;
        bytes[..4].copy_from_slice(&version.to_be_bytes());
        let length = bytes.len() as u16 - 40;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        bytes[7] = 64;
        let udp = payload_offset - 8;
        let length = (bytes.len() - udp) as u16;
        bytes[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
        bytes[udp + 6..udp + 8].fill(0);
        // RFC 8200, section 8.1: over the addresses, the length, the protocol and the datagram.
        let words = bytes[8..40].chunks(2).chain(bytes[udp..].chunks(2));
        let sum: u32 = words
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        let sum = sum + u32::from(length) + libc::IPPROTO_UDP as u32;
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = match !(folded + (folded >> 16)) as u16 {
            0 => 0xffff,
            other => other,
        };
        bytes[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Raw sockets of one address and protocol each receive every packet, and the kernel takes no program for them.
    fn other_protocols_have_no_group_to_steer() {
        // A protocol number for experiments (RFC 3692).
        let protocol = Some(Protocol::from(253));
        let steering = sockets::steering(HashFields::TwoTuple, sockets::round_robin(128, 2));
        for (address, families) in [
            (sockets::LOOPBACK_V4, Families::V4),
            (sockets::LOOPBACK_V6, Families::V6),
        ] {
            let group: Vec<Socket> = std::iter::repeat_with(|| {
                let socket = Socket::new(Domain::for_address(address), Type::RAW, protocol).unwrap();
                socket.set_reuse_port(true).unwrap();
                socket.bind(&address.into()).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket
            })
            .take(2)
            .collect();
            let program = steer::program(&steering, families).unwrap();
            assert_eq!(sockets::try_attach(&group[0], &program), Err(nix::Error::EINVAL));
            group[0].send_to(b"to both", &address.into()).unwrap();
            for mut socket in &group {
                let mut packet = [0; 100];
                let length = socket.read(&mut packet).unwrap();
                assert!(packet[..length].ends_with(b"to both"));
            }
        }
    }

    /// A steering whose program returns `offset` plus the byte of the hash that starts at bit `shift`. Zeros before the
    /// key move the hash towards its low bits.
    fn steering(fields: HashFields, shift: usize, offset: u16) -> Steering {
        let key = [&vec![0; shift / 8], Key::VERIFICATION.as_bytes()].concat();
        let entries = (offset..offset + BUCKETS).map(Bucket::new);
        Steering {
            key: Key::from_bytes(&key).unwrap(),
            hash_fields: fields,
            table: IndirectionTable::from_entries(entries.collect()).unwrap(),
            cpus: vec![0; (offset + BUCKETS).into()],
            generation: 0,
        }
    }

    fn group_receives_at(tuple: &Tuple, fields: HashFields, shift: usize, byte: u16) {
        let destination = on_loopback(tuple.destination());
        let families = match tuple {
            Tuple::V4 { .. } => Families::V4,
            Tuple::V6 { .. } => Families::V6,
        };
        let group = group(&steering(fields, shift, 0), Type::DGRAM, destination, families);
        send(tuple, &[byte as u8]);
        let mut payload = [0; 8];
        let received = (&group[usize::from(byte)]).read(&mut payload);
        let received = received.unwrap_or_else(|error| {
            panic!("{tuple}, {fields}, bit {shift}: socket {byte} did not receive it: {error}")
        });
        assert_eq!(payload[..received], [byte as u8]);
    }

    /// A multicast datagram goes to every socket of a group without a program's choice. The same program attached to a
    /// socket as its filter instead determines how many bytes of the datagram the kernel keeps, including the header of
    /// eight bytes.
    fn filter_keeps_as_many_bytes(tuple: &Tuple, fields: HashFields, shift: usize, byte: u16) {
        const OFFSET: u16 = 100;
        let program = steer::program(&steering(fields, shift, OFFSET), Families::V6).unwrap();
        let receiver = Socket::new(Domain::IPV6, Type::DGRAM, None).unwrap();
        let filter: Vec<SockFilter> = program
            .instructions()
            .iter()
            .map(|instruction| {
                let Instruction { code, jt, jf, k } = *instruction;
                SockFilter::new(code, jt, jf, k)
            })
            .collect();
        receiver.attach_filter(&filter).unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        receiver.bind(&on_loopback(tuple.destination()).into()).unwrap();
        send(tuple, &[0; 1000]);
        let received = (&receiver).read(&mut [0; 1000]).unwrap();
        assert_eq!(
            received,
            usize::from(OFFSET + byte) - 8,
            "{tuple}, {fields}, bit {shift}"
        );
    }

    fn send(tuple: &Tuple, payload: &[u8]) {
        let source = Socket::new(Domain::for_address(tuple.source()), Type::DGRAM, None).unwrap();
        source.bind(&tuple.source().into()).unwrap();
        source
            .send_to(payload, &on_loopback(tuple.destination()).into())
            .unwrap();
    }

    /// Link-local and multicast addresses need a scope: the device.
    fn on_loopback(address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(mut own) if own.ip().is_multicast() || own.ip().is_unicast_link_local() => {
                own.set_scope_id(LOOPBACK);
                own.into()
            }
            _ => address,
        }
    }
}
