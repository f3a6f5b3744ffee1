//! The kernel, running the generated program, gives every datagram and connection to the socket of the bucket that the
//! oracle names.
//!
//! Each test makes a group of sockets on loopback, one a bucket, attaches the program and sends from many addresses and
//! ports. Every socket has a receive time limit, so that a lost packet fails the test instead of hanging it.

#![cfg(target_os = "linux")]

mod common;

use common::sockets::{PATIENCE, group, port, send_ipv4_options, send_ipv6_extensions};
use corelane_rss::steer::{self, Families};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple, oracle};
use socket2::{Domain, Socket, Type};
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Loopback, a port of the kernel's choice.
const LOOPBACK_V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LOOPBACK_V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
/// Every address of both families.
const WILDCARD: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

fn steering(hash_fields: HashFields, table: IndirectionTable) -> Steering {
    let key = std::array::from_fn::<u8, 40, _>(|at| (at as u8).wrapping_mul(151) ^ 0x6d);
    Steering {
        key: Key::from_bytes(&key).unwrap(),
        hash_fields,
        cpus: vec![0; table.buckets()],
        table,
        generation: 0,
    }
}

fn round_robin(size: usize, buckets: usize) -> IndirectionTable {
    IndirectionTable::round_robin(size, buckets).unwrap()
}

/// A table in which neighbouring entries have nothing to do with each other.
fn irregular(size: u32, buckets: u32) -> IndirectionTable {
    let draw = |entry: u32| (entry.wrapping_mul(2_654_435_761) >> 12) % buckets;
    let entries = (0..size).map(|entry| Bucket::new(draw(entry) as u16));
    IndirectionTable::from_entries(entries.collect()).unwrap()
}

fn oracle_bucket(steering: &Steering, tuple: &Tuple) -> Bucket {
    let hash = oracle::toeplitz(&steering.key, tuple.input(steering.hash_fields).as_bytes());
    steering.table.entries()[hash as usize % steering.table.size()]
}

/// Sends a datagram or makes a connection from each source to port `server` of the group, and asserts that the socket
/// that the oracle names receives it.
fn sources_meet_the_oracle(
    steering: &Steering,
    group: &[Socket],
    server: SocketAddr,
    sources: impl IntoIterator<Item = Socket>,
) {
    let server = SocketAddr::new(server.ip(), port(&group[0]));
    let mut reached = vec![0; group.len()];
    for source in sources {
        let local = source.local_addr().unwrap().as_socket().unwrap();
        let tuple = Tuple::new(local, server).unwrap();
        let bucket = oracle_bucket(steering, &tuple);
        source.connect(&server.into()).unwrap();
        let listener = &group[bucket.index()];
        let arrived = match source.r#type().unwrap() {
            Type::STREAM => listener.accept().map(|(_, peer)| peer.as_socket().unwrap()),
            _ => receive(&source, listener, &tuple),
        };
        let peer = arrived.unwrap_or_else(|error| panic!("{tuple} did not reach bucket {bucket}: {error}"));
        assert_eq!(Tuple::new(peer, server), Ok(tuple));
        reached[bucket.index()] += 1;
    }
    let used = reached.iter().filter(|count| **count > 0).count();
    assert!(used > 1, "all on one bucket proves nothing: {reached:?}");
}

/// Sends the tuple as text and returns the address that came with it.
fn receive(source: &Socket, receiver: &Socket, tuple: &Tuple) -> std::io::Result<SocketAddr> {
    source.send(tuple.to_string().as_bytes())?;
    let mut payload = [0; 200];
    let length = (&*receiver).read(&mut payload)?;
    assert_eq!(payload[..length], *tuple.to_string().as_bytes());
    Ok(tuple.source())
}

/// So many sockets of 127.x.y.z addresses, each with a port of its own.
fn ipv4_sources(kind: Type, count: u32) -> impl Iterator<Item = Socket> {
    (0..count).map(move |number| {
        let host = number.wrapping_mul(0x9e37_79b9) >> 8;
        let address = Ipv4Addr::from(0x7f00_0000 | host.clamp(2, 0xff_fffe));
        source(kind, SocketAddr::from((address, 0)))
    })
}

/// So many sockets of ::1, each with a port of its own.
fn ipv6_sources(kind: Type, count: u32) -> impl Iterator<Item = Socket> {
    (0..count).map(move |_| source(kind, LOOPBACK_V6))
}

fn source(kind: Type, address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), kind, None).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn ipv4_datagrams_reach_the_socket_that_the_oracle_names() {
    for table in [round_robin(128, 8), round_robin(128, 3), irregular(512, 5)] {
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let steering = steering(fields, table.clone());
            let group = group(&steering, Type::DGRAM, LOOPBACK_V4, Families::V4);
            sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(Type::DGRAM, 500));
        }
    }
}

#[test]
fn ipv6_datagrams_reach_the_socket_that_the_oracle_names() {
    for table in [round_robin(128, 8), irregular(512, 5)] {
        let steering = steering(HashFields::FourTuple, table);
        let group = group(&steering, Type::DGRAM, LOOPBACK_V6, Families::V6);
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(Type::DGRAM, 500));
    }
}

#[test]
fn connections_reach_the_listener_that_the_oracle_names() {
    let steering = steering(HashFields::FourTuple, irregular(128, 6));
    let listeners = group(&steering, Type::STREAM, LOOPBACK_V4, Families::V4);
    sources_meet_the_oracle(
        &steering,
        &listeners,
        LOOPBACK_V4,
        ipv4_sources(Type::STREAM, 300),
    );
    let listeners = group(&steering, Type::STREAM, LOOPBACK_V6, Families::V6);
    sources_meet_the_oracle(
        &steering,
        &listeners,
        LOOPBACK_V6,
        ipv6_sources(Type::STREAM, 300),
    );
}

#[test]
fn a_dual_stack_group_steers_both_families() {
    let steering = steering(HashFields::FourTuple, irregular(128, 6));
    for kind in [Type::DGRAM, Type::STREAM] {
        let group = group(&steering, kind, WILDCARD, Families::Both);
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(kind, 200));
        sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(kind, 200));
    }
}

#[test]
fn the_kernel_takes_programs_of_the_largest_tables() {
    let steering = steering(HashFields::FourTuple, irregular(4096, 256));
    let length = steer::program(&steering, Families::Both)
        .unwrap()
        .instructions()
        .len();
    assert!(length > 3900, "{length}");
    let group = group(&steering, Type::DGRAM, WILDCARD, Families::Both);
    sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, ipv4_sources(Type::DGRAM, 200));
    sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, ipv6_sources(Type::DGRAM, 200));
}

#[test]
fn ipv4_options_are_stepped_over() {
    let steering = steering(HashFields::FourTuple, round_robin(128, 8));
    for kind in [Type::DGRAM, Type::STREAM] {
        let group = group(&steering, kind, LOOPBACK_V4, Families::V4);
        for words in [1, 5, 10] {
            let sources = ipv4_sources(kind, 100).inspect(|socket| send_ipv4_options(socket, words));
            sources_meet_the_oracle(&steering, &group, LOOPBACK_V4, sources);
        }
    }
}

#[test]
fn ipv6_extension_headers_are_stepped_over() {
    if let Err(error) = send_ipv6_extensions(&source(Type::DGRAM, LOOPBACK_V6), 1, 1) {
        eprintln!("skipped: extension headers cannot be sent here ({error}); they take CAP_NET_RAW");
        return;
    }
    let steering = steering(HashFields::FourTuple, round_robin(128, 8));
    for kind in [Type::DGRAM, Type::STREAM] {
        let group = group(&steering, kind, LOOPBACK_V6, Families::V6);
        for (hop_by_hop, destination) in [(1, 1), (2, 1), (1, 3)] {
            let sources = ipv6_sources(kind, 100).inspect(|socket| {
                send_ipv6_extensions(socket, hop_by_hop, destination).unwrap();
            });
            sources_meet_the_oracle(&steering, &group, LOOPBACK_V6, sources);
        }
    }
}
