//! Socket groups on real sockets: bucket order, exact steering, and rejected settings.

use corelane_rss::steer::{self, Families, Program};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::{namespaces, namespaces_plan, undisturbed};
use corelane_worker::group::{self, GroupError, GroupSettings};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BUCKETS: usize = 4;

fn steering() -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, BUCKETS).unwrap(),
        cpus: vec![0; BUCKETS],
        generation: 0,
    }
}

fn program() -> Program {
    steer::program(&steering(), Families::Both).unwrap()
}

fn group_on(address: &str) -> Result<Vec<UdpSocket>, GroupError> {
    let settings = GroupSettings::default();
    group::udp(address.parse().unwrap(), BUCKETS, Some(&program()), &settings)
}

/// Addresses to listen on and to ask; the IPv6 wildcard address receives both families.
const LISTEN_AND_ASK: [(&str, &str); 5] = [
    ("127.0.0.1", "127.0.0.1"),
    ("::1", "::1"),
    ("0.0.0.0", "127.7.0.1"),
    ("::", "::1"),
    ("::", "127.7.0.1"),
];

/// A sender's own address, which a socket of both families reports as a mapped one.
fn unmapped(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

#[test]
fn the_program_of_a_group_supports_what_its_address_receives() {
    let cases = [
        ("127.0.0.1:9", false, Families::V4),
        ("0.0.0.0:9", false, Families::V4),
        ("[::ffff:127.0.0.1]:9", false, Families::V4),
        ("[::1]:9", false, Families::V6),
        ("[::]:9", false, Families::Both),
        ("[::]:9", true, Families::V6),
    ];
    for (address, ipv6_only, families) in cases {
        let found = group::families(address.parse().unwrap(), ipv6_only);
        assert_eq!(found, families, "{address} {ipv6_only}");
    }
}

#[test]
fn a_group_on_a_mapped_address_is_one_of_ipv4() {
    let settings = GroupSettings {
        destinations: true,
        ..GroupSettings::default()
    };
    for (mapped, canonical) in [("::ffff:0.0.0.0", "0.0.0.0"), ("::ffff:127.0.0.1", "127.0.0.1")] {
        let mapped = SocketAddr::new(mapped.parse().unwrap(), 0);
        let datagrams = group::udp(mapped, BUCKETS, Some(&program()), &settings).unwrap();
        let listeners = group::tcp(mapped, BUCKETS, Some(&program()), 16, &settings).unwrap();
        let bound = [
            datagrams[0].local_addr().unwrap(),
            listeners[0].local_addr().unwrap(),
        ];
        assert_eq!(bound.map(|address| address.ip().to_string()), [canonical; 2]);
    }
}

#[test]
fn a_group_of_one_family_leaves_the_other_to_another_group() {
    let ipv6_only = GroupSettings {
        ipv6_only: true,
        ..GroupSettings::default()
    };
    let both = GroupSettings::default();
    let open = |address: SocketAddr, settings| group::udp(address, BUCKETS, None, settings);
    // A port that the kernel chose for one family, another test may hold in the other.
    let port = 9_317;
    let _ipv4 = open(SocketAddr::new("0.0.0.0".parse().unwrap(), port), &both).unwrap();
    let everywhere = SocketAddr::new("::".parse().unwrap(), port);
    let refusal = open(everywhere, &both).unwrap_err().to_string();
    assert!(refusal.contains("or IPv6 only (ipv6_only)"), "{refusal}");
    assert_eq!(open(everywhere, &ipv6_only).unwrap().len(), BUCKETS);
}

#[test]
fn every_datagram_reaches_the_bucket_that_the_oracle_names() {
    undisturbed(|| {
        for (listen, ip) in LISTEN_AND_ASK {
            let [listen, ip]: [IpAddr; 2] = [listen, ip].map(|ip| ip.parse().unwrap());
            let settings = GroupSettings::default();
            let group = group::udp((listen, 0).into(), BUCKETS, Some(&program()), &settings).unwrap();
            let server = SocketAddr::new(ip, group[0].local_addr().unwrap().port());
            let steerer = steering().steerer();
            let mut hit = [0; BUCKETS];
            for _ in 0..200 {
                let client = UdpSocket::bind((ip, 0)).unwrap();
                let source = client.local_addr().unwrap();
                let bucket: Bucket = steerer.bucket_of(&Tuple::new(source, server).unwrap());
                client.send_to(b"to my bucket", server).unwrap();
                let socket = &group[bucket.index()];
                socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut buffer = [0; 20];
                let (length, peer) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!((length, unmapped(peer)), (12, source));
                hit[bucket.index()] += 1;
            }
            assert!(hit.iter().all(|count| *count > 0), "{hit:?}");
        }
    });
}

/// The index of a group's member and the source of a datagram that it received, for 8 datagrams of each member.
fn received_by(group: &[UdpSocket]) -> std::io::Result<Vec<(usize, SocketAddr)>> {
    let mut received = Vec::new();
    for (index, socket) in group.iter().enumerate() {
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        for _ in 0..8 {
            received.push((index, socket.recv_from(&mut [0; 8])?.1));
        }
    }
    Ok(received)
}

#[test]
fn a_group_opened_under_traffic_receives_nothing_before_it_is_steered() {
    let address = "127.9.0.1:7409";
    let server: SocketAddr = address.parse().unwrap();
    let stop = AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            let clients: Vec<UdpSocket> = (0..64).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            while !stop.load(Ordering::Relaxed) {
                for client in &clients {
                    // Refused while no group is open.
                    let _ = client.send_to(b"early", server);
                }
            }
        });
        let groups = (0..50).map(|_| received_by(&group_on(address).map_err(std::io::Error::other)?));
        let received = groups.collect::<std::io::Result<Vec<_>>>();
        stop.store(true, Ordering::Relaxed);
        received.unwrap()
    });
    let steerer = steering().steerer();
    for (index, source) in received.concat() {
        let bucket: Bucket = steerer.bucket_of(&Tuple::new(source, server).unwrap());
        assert_eq!(bucket.index(), index, "from {source}");
    }
}

#[test]
fn a_socket_that_is_about_to_be_connected_takes_nothing_from_a_steered_group() {
    undisturbed(|| {
        for host in ["127.0.0.1", "::1"] {
            let ip: IpAddr = host.parse().unwrap();
            let group = group_on(&SocketAddr::new(ip, 0).to_string()).unwrap();
            let server = group[0].local_addr().unwrap();
            let connected = UdpSocket::bind((ip, 0)).unwrap();
            let peer = connected.local_addr().unwrap();
            let _first = group::connected(server, peer, &GroupSettings::default()).unwrap();
            // Another one, between bind and connect.
            let second = Socket::new(Domain::for_address(server), Type::DGRAM, None).unwrap();
            second.set_reuse_address(true).unwrap();
            second.set_reuse_port(true).unwrap();
            second.bind(&server.into()).unwrap();
            let steerer = steering().steerer();
            for _ in 0..16 {
                let client = UdpSocket::bind((ip, 0)).unwrap();
                let source = client.local_addr().unwrap();
                client.send_to(b"who?", server).unwrap();
                let bucket: Bucket = steerer.bucket_of(&Tuple::new(source, server).unwrap());
                let socket = &group[bucket.index()];
                socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let (_, peer) = socket.recv_from(&mut [0; 8]).expect("on the bucket's socket");
                assert_eq!(peer, source);
            }
        }
    });
}

#[test]
fn every_connection_reaches_the_bucket_that_the_oracle_names() {
    for (listen, ip) in LISTEN_AND_ASK {
        let [listen, ip]: [IpAddr; 2] = [listen, ip].map(|ip| ip.parse().unwrap());
        let settings = GroupSettings::default();
        let group = group::tcp((listen, 0).into(), BUCKETS, Some(&program()), 1_024, &settings).unwrap();
        let server = SocketAddr::new(ip, group[0].local_addr().unwrap().port());
        let steerer = steering().steerer();
        let mut hit = [0; BUCKETS];
        for _ in 0..200 {
            let client = TcpStream::connect(server).unwrap();
            let source = client.local_addr().unwrap();
            let bucket: Bucket = steerer.bucket_of(&Tuple::new(source, server).unwrap());
            let listener = &group[bucket.index()];
            listener.set_nonblocking(true).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(unmapped(peer), source);
            hit[bucket.index()] += 1;
        }
        assert!(hit.iter().all(|count| *count > 0), "{hit:?}");
    }
}

#[test]
fn a_group_of_listeners_is_not_joined_by_another() {
    let tcp = |address: SocketAddr| {
        let settings = GroupSettings::default();
        group::tcp(address, BUCKETS, Some(&program()), 16, &settings)
    };
    let first = tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first[0].local_addr().unwrap();
    let refusal = tcp(address).unwrap_err();
    assert!(matches!(refusal, GroupError::AddressInUse { .. }), "{refusal}");
    let text = refusal.to_string();
    assert!(
        text.contains(&format!("TCP {address} is in use")) && text.contains("ss -tlpn"),
        "{text}"
    );
    // A connection in TIME_WAIT, after the server closed it, does not keep the address in use.
    let mut client = TcpStream::connect(address).unwrap();
    let steerer = steering().steerer();
    let tuple = Tuple::new(client.local_addr().unwrap(), address).unwrap();
    drop(first[steerer.bucket_of(&tuple).index()].accept().unwrap());
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop((client, first));
    assert_eq!(tcp(address).unwrap().len(), BUCKETS);
}

#[test]
fn a_group_shares_one_free_port() {
    let group = group_on("127.0.0.1:0").unwrap();
    let addresses: Vec<SocketAddr> = group.iter().map(|socket| socket.local_addr().unwrap()).collect();
    assert_eq!(addresses, [addresses[0]; BUCKETS]);
    assert_ne!(addresses[0].port(), 0);
}

#[test]
fn an_address_in_use_is_refused_by_name() {
    let single = UdpSocket::bind("127.0.0.1:0").unwrap();
    let group = group_on("127.0.0.1:0").unwrap();
    let everywhere = group_on("0.0.0.0:0").unwrap();
    for holder in [&single, &group[0], &everywhere[0]] {
        let mut address = holder.local_addr().unwrap();
        address.set_ip("127.0.0.1".parse().unwrap());
        let refusal = group_on(&address.to_string()).unwrap_err();
        assert!(matches!(refusal, GroupError::AddressInUse { address: named, .. } if named == address));
        let text = refusal.to_string();
        assert!(text.contains(&format!("UDP {address} is in use")), "{text}");
    }
}

#[test]
fn an_address_of_no_device_needs_leave() {
    let refusal = group_on("203.0.113.1:7009").unwrap_err().to_string();
    assert!(
        refusal.contains("no device has the address 203.0.113.1:7009"),
        "{refusal}"
    );
    let leave = GroupSettings {
        free_bind: true,
        ..GroupSettings::default()
    };
    let address = "203.0.113.1:7009".parse().unwrap();
    assert_eq!(group::udp(address, 2, None, &leave).unwrap().len(), 2);
}

#[test]
fn a_group_of_none_is_refused_and_a_group_of_one_is_alone() {
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let settings = GroupSettings::default();
    let none = group::udp(anywhere, 0, None, &settings).unwrap_err();
    assert!(matches!(none, GroupError::NoBuckets));
    let one = group::udp(anywhere, 1, Some(&program()), &settings).unwrap();
    let address = one[0].local_addr().unwrap();
    assert!(matches!(
        group_on(&address.to_string()),
        Err(GroupError::AddressInUse { .. })
    ));
}

#[test]
fn the_receive_buffer_has_the_requested_size_and_is_reported() {
    let settings = GroupSettings {
        receive_buffer: Some(100_000),
        ..GroupSettings::default()
    };
    let group = group::udp("127.0.0.1:0".parse().unwrap(), 2, None, &settings).unwrap();
    for socket in &group {
        // The kernel doubles it.
        assert_eq!(SockRef::from(socket).recv_buffer_size().unwrap(), 200_000);
    }
}

#[test]
fn a_program_over_the_limit_is_refused_with_both_numbers() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    if let Err(error) = bed.server.set("net.core.optmem_max", "1024") {
        eprintln!("skipped: {error}");
        return;
    }
    let refusal = bed
        .server
        .run(|| group_on("10.11.2.1:7009").unwrap_err().to_string());
    let count = program().instructions().len();
    let expected =
        format!("a steering program of {count} instructions does not fit net.core.optmem_max (1024 bytes)");
    assert!(refusal.contains(&expected), "{refusal}");
}
