//! Outgoing connections: what the server sends back is hashed to the bucket of the worker that connected, as the addresses
//! of the real sockets say.

use crate::suite::streams::Log;
use crate::suite::world::{Case, World, on_epoll, on_io_uring, until};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple, oracle};
use corelane_worker::Time;
use corelane_worker::engine::{ConnectOptions, Engine, EngineSettings, Ops};
use corelane_worker::outgoing::{Connector, ConnectorCounts, Lease, Ports, Release};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

const BUCKETS: usize = 4;

fn steering(hash_fields: HashFields) -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields,
        table: IndirectionTable::round_robin(128, BUCKETS).unwrap(),
        cpus: vec![0; BUCKETS],
        generation: 0,
    }
}

/// The bucket of what `server` sends to `own`, computed bit by bit.
fn bucket_of_reply(steering: &Steering, server: SocketAddr, own: SocketAddr) -> Bucket {
    let reply = Tuple::new(server, own).unwrap();
    let input = reply.input(steering.hash_fields);
    steering
        .table
        .bucket(oracle::toeplitz(&steering.key, input.as_bytes()))
}

/// Ports below those that the kernel gives to the sockets of other tests.
fn lease(address: IpAddr) -> Lease {
    let (first, last) = (10_000, 19_999);
    Lease {
        ports: Ports::Range { first, last },
        ..Lease::of(address)
    }
}

/// Servers of both families: sockets that are bound and read nothing.
fn servers() -> Vec<UdpSocket> {
    let bound = ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"].map(UdpSocket::bind);
    bound.into_iter().map(Result::unwrap).collect()
}

#[test]
fn replies_over_udp_hash_to_the_workers_bucket_in_both_families() {
    let steering = steering(HashFields::FourTuple);
    let servers = servers();
    let leases = ["127.0.0.1", "127.0.0.3", "::1"].map(|address| lease(address.parse().unwrap()));
    let mut open = BTreeMap::new();
    for bucket in 0..BUCKETS as u16 {
        let mut connector = Connector::new(&leases, &steering, &[Bucket::new(bucket)]);
        for server in servers.iter().cycle().take(150) {
            let server = server.local_addr().unwrap();
            let (socket, _) = connector.udp(server, Time::now()).unwrap();
            let own = socket.local_addr().unwrap();
            assert_eq!(
                bucket_of_reply(&steering, server, own),
                Bucket::new(bucket),
                "{own} to {server}"
            );
            assert!(open.insert((own, server), socket).is_none(), "{own} twice");
        }
        assert_eq!(
            (connector.counts().aligned, connector.counts().unaligned),
            (150, 0)
        );
    }
}

#[test]
fn no_port_is_picked_for_a_table_that_is_indexed_by_a_remainder() {
    for (entries, buckets, aligned) in [(48, 6, 0), (48, 5, 0), (48, 16, 40)] {
        let steering = Steering {
            table: IndirectionTable::round_robin(entries, buckets).unwrap(),
            cpus: vec![0; buckets],
            ..steering(HashFields::FourTuple)
        };
        let lease = lease("127.0.0.1".parse().unwrap());
        let mut connector = Connector::new(&[lease], &steering, &[Bucket::new(3)]);
        for port in 1..=40 {
            let server = SocketAddr::from(([127, 0, 0, 1], port));
            connector.source(server, Time::now()).unwrap();
        }
        let counts = connector.counts();
        assert_eq!((counts.aligned, counts.unaligned), (aligned, 40 - aligned));
    }
}

/// Connects over an engine to a listener of each family.
struct OverTcp;

impl Case for OverTcp {
    fn run<E: Engine>(self, mut engine: E, _: &dyn World) {
        let steering = steering(HashFields::FourTuple);
        let mut log = Log::default();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let server = listener.local_addr().unwrap();
            engine.ops().listen(listener).unwrap();
            let own = [Bucket::new(1), Bucket::new(3)];
            let mut connector = Connector::new(&[lease(server.ip())], &steering, &own);
            let mut reached = BTreeMap::new();
            for _ in 0..100 {
                let (id, source) = connector
                    .tcp(engine.ops(), server, ConnectOptions::default(), Time::now())
                    .unwrap();
                let ended = |_: &mut Ops, log: &Log| log.is_open(id) || log.cause(id).is_some();
                until(&mut engine, &mut log, "it is open or failed", ended);
                if log.cause(id).is_some() {
                    connector.release(source, Release::Taken, Time::now());
                    continue;
                }
                let local = engine.ops().local_address(id).unwrap();
                *reached
                    .entry(bucket_of_reply(&steering, server, local))
                    .or_insert(0) += 1;
                assert!(
                    engine.ops().last_received(id).cpu.is_some(),
                    "a packet was received"
                );
            }
            let counts = connector.counts();
            assert_eq!((counts.aligned + counts.taken, counts.unaligned), (100, 0));
            assert_eq!(reached.keys().copied().collect::<Vec<_>>(), own);
        }
    }
}

#[test]
fn replies_over_tcp_hash_to_one_of_the_workers_buckets_with_epoll() {
    on_epoll(&EngineSettings::default(), OverTcp);
}

#[test]
fn replies_over_tcp_hash_to_one_of_the_workers_buckets_with_io_uring() {
    on_io_uring(&EngineSettings::default(), OverTcp);
}

#[test]
fn without_an_aligned_port_the_kernel_chooses_one_and_it_is_counted_until_one_returns() {
    let steering = steering(HashFields::FourTuple);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = server.local_addr().unwrap();
    let address: IpAddr = "127.0.0.9".parse().unwrap();
    let own = Bucket::new(2);
    // Two ports of the bucket, and two of others.
    let of_own = |port: &u16| bucket_of_reply(&steering, server, SocketAddr::new(address, *port)) == own;
    let (mine, others): (Vec<u16>, Vec<u16>) = (20_000..21_000).partition(of_own);
    let lease = Lease {
        ports: Ports::Listed([&mine[..2], &others[..2]].concat()),
        ..lease(address)
    };
    let mut connector = Connector::new(&[lease], &steering, &[own]);
    let now = Time::now();
    let mut open: Vec<_> = (0..3).map(|_| connector.udp(server, now).unwrap()).collect();
    let counts = |aligned, unaligned| ConnectorCounts {
        aligned,
        unaligned,
        taken: 0,
    };
    assert_eq!(connector.counts(), counts(2, 1));
    let (unaligned, _) = &open[2];
    let local = unaligned.local_addr().unwrap();
    assert_eq!(local.ip(), address);
    assert!(!others[..2].contains(&local.port()), "leased for other servers");
    let (socket, source) = open.remove(0);
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    connector.release(source, Release::Free, now);
    let (again, _) = connector.udp(server, now).unwrap();
    assert_eq!(again.local_addr().unwrap().port(), port);
    assert_eq!(connector.counts(), counts(3, 1));
}

#[test]
fn ports_that_others_hold_are_skipped() {
    let steering = steering(HashFields::FourTuple);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = server.local_addr().unwrap();
    let address: IpAddr = "127.0.0.10".parse().unwrap();
    let mut first = Connector::new(&[lease(address)], &steering, &[Bucket::new(0)]);
    let mut second = Connector::new(&[lease(address)], &steering, &[Bucket::new(0)]);
    let held: Vec<_> = (0..3).map(|_| first.udp(server, Time::now()).unwrap()).collect();
    let (socket, _) = second.udp(server, Time::now()).unwrap();
    let ports: Vec<u16> = held
        .iter()
        .map(|(socket, _)| socket.local_addr().unwrap().port())
        .collect();
    assert!(!ports.contains(&socket.local_addr().unwrap().port()));
    assert_eq!(second.counts().taken, 3, "both try the same ports first");
    assert_eq!(second.counts().aligned, 1);
}

#[test]
fn where_only_addresses_are_hashed_the_address_is_chosen() {
    let steering = steering(HashFields::TwoTuple);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = server.local_addr().unwrap();
    let leases: Vec<Lease> = (1..=64)
        .map(|host| lease(IpAddr::from([127, 3, 0, host])))
        .collect();
    let own = Bucket::new(1);
    let mut connector = Connector::new(&leases, &steering, &[own]);
    for _ in 0..40 {
        let (socket, _) = connector.udp(server, Time::now()).unwrap();
        let local = socket.local_addr().unwrap();
        assert_eq!(bucket_of_reply(&steering, server, local), own, "{local}");
    }
    assert_eq!(connector.counts().unaligned, 0);
}

#[test]
fn a_server_of_a_family_without_lease_is_not_connected() {
    let steering = steering(HashFields::FourTuple);
    let mut connector = Connector::new(&[lease(Ipv6Addr::LOCALHOST.into())], &steering, &[Bucket::new(0)]);
    let error = connector
        .udp("127.0.0.1:9".parse().unwrap(), Time::now())
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
}
