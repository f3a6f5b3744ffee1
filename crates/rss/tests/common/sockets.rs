//! Groups of sockets steered by a generated program, the sources that send to them, and socket options that insert
//! headers between addresses and ports.

use super::random::Draws;
use corelane_rss::steer::{self, Families, Program};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple, oracle};
use nix::setsockopt_impl;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};
use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

/// How long a packet is awaited.
pub use corelane_tests::PATIENCE;

/// Loopback, with a port chosen by the kernel.
pub const LOOPBACK_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
pub const LOOPBACK_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
/// Every address of both families, with a port chosen by the kernel.
pub const WILDCARD: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

pub fn steering(hash_fields: HashFields, table: IndirectionTable) -> Steering {
    let key = std::array::from_fn::<u8, 40, _>(|at| (at as u8).wrapping_mul(151) ^ 0x6d);
    Steering {
        key: Key::from_bytes(&key).unwrap(),
        hash_fields,
        cpus: vec![0; table.buckets()],
        table,
        generation: 0,
    }
}

pub fn round_robin(size: usize, buckets: usize) -> IndirectionTable {
    IndirectionTable::round_robin(size, buckets).unwrap()
}

/// A table without a regular pattern of neighbouring entries.
pub fn irregular(size: u32, buckets: u32) -> IndirectionTable {
    let draw = |entry: u32| (entry.wrapping_mul(2_654_435_761) >> 12) % buckets;
    let entries = (0..size).map(|entry| Bucket::new(draw(entry) as u16));
    IndirectionTable::from_entries(entries.collect()).unwrap()
}

pub fn oracle_bucket(steering: &Steering, tuple: &Tuple) -> Bucket {
    let hash = oracle::toeplitz(&steering.key, tuple.input(steering.hash_fields).as_bytes());
    steering.table.entries()[hash as usize % steering.table.size()]
}

/// Sends a datagram or opens a connection from each source to port `server` of the group, and asserts that the socket
/// chosen by the oracle receives it.
pub fn sources_meet_the_oracle(
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

/// Random keys, tables and fields, each run by the kernel on datagrams of both families: 30 steerings of 80 datagrams.
pub fn random_steerings_meet_the_oracle(seed: u64) {
    let mut draws = Draws::new(seed);
    for _ in 0..15 {
        let size = 1 << (4 + draws.next() % 6);
        let buckets = 2 + draws.next() % 11;
        let entries: Vec<Bucket> = (0..size)
            .map(|_| Bucket::new((draws.next() % buckets) as u16))
            .collect();
        let table = IndirectionTable::from_entries(entries).unwrap();
        for (address, families) in [(LOOPBACK_V4, Families::V4), (LOOPBACK_V6, Families::V6)] {
            // There is only one IPv6 loopback address, and so only one IPv6 2-tuple.
            let two = address.is_ipv4() && draws.next() & 1 == 0;
            let steering = Steering {
                key: draws.key(),
                hash_fields: if two {
                    HashFields::TwoTuple
                } else {
                    HashFields::FourTuple
                },
                cpus: (0..table.buckets() as u32).collect(),
                table: table.clone(),
                generation: 0,
            };
            let group = group(&steering, Type::DGRAM, address, families);
            if address.is_ipv4() {
                sources_meet_the_oracle(&steering, &group, address, ipv4_sources(Type::DGRAM, 80));
            } else {
                sources_meet_the_oracle(&steering, &group, address, ipv6_sources(Type::DGRAM, 80));
            }
        }
    }
}

/// Sends the tuple as text and returns the source address that the receiver saw. The datagram is so large that a device
/// with Ethernet's MTU fragments it; loopback does not by default, because its MTU is larger.
fn receive(source: &Socket, receiver: &Socket, tuple: &Tuple) -> io::Result<SocketAddr> {
    let sent = format!("{:<4000}", tuple.to_string());
    source.send(sent.as_bytes())?;
    let mut payload = [0; 5000];
    let length = (&*receiver).read(&mut payload)?;
    assert_eq!(payload[..length], *sent.as_bytes());
    Ok(tuple.source())
}

/// `count` sockets on 127.x.y.z addresses, each with its own port.
pub fn ipv4_sources(kind: Type, count: u32) -> impl Iterator<Item = Socket> {
    (0..count).map(move |number| {
        let host = number.wrapping_mul(0x9e37_79b9) >> 8;
        let address = Ipv4Addr::from(0x7f00_0000 | host.clamp(2, 0xff_fffe));
        source(kind, SocketAddr::from((address, 0)))
    })
}

/// `count` sockets on ::1, each with its own port.
pub fn ipv6_sources(kind: Type, count: u32) -> impl Iterator<Item = Socket> {
    (0..count).map(move |_| source(kind, LOOPBACK_V6))
}

fn source(kind: Type, address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), kind, None).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sockets bound to `address`, one per bucket, with the program attached. Port 0 selects a free port.
pub fn group(steering: &Steering, kind: Type, mut address: SocketAddr, families: Families) -> Vec<Socket> {
    let mut sockets = Vec::new();
    for _ in 0..steering.cpus.len() {
        let socket = Socket::new(Domain::for_address(address), kind, None).unwrap();
        if address.is_ipv6() {
            socket.set_only_v6(families == Families::V6).unwrap();
        }
        // The kernel may choose the port of another group for a socket that already shares its port.
        let is_first = sockets.is_empty();
        socket.set_reuse_port(!is_first).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.set_reuse_port(true).unwrap();
        if kind == Type::STREAM {
            socket.listen(1024).unwrap();
        }
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        address.set_port(port(&socket));
        sockets.push(socket);
    }
    try_attach(&sockets[0], &steer::program(steering, families).unwrap()).unwrap();
    sockets
}

pub fn try_attach(socket: &impl AsFd, program: &Program) -> nix::Result<()> {
    let instructions = program.instructions().iter();
    let mut filters: Vec<libc::sock_filter> = instructions
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jt,
            jf: instruction.jf,
            k: instruction.k,
        })
        .collect();
    let program = libc::sock_fprog {
        len: filters.len() as u16,
        filter: filters.as_mut_ptr(),
    };
    setsockopt(socket, sockopt::AttachReusePortCbpf, &program)
}

pub fn port(socket: &Socket) -> u16 {
    socket.local_addr().unwrap().as_socket().unwrap().port()
}

// The values of these options are byte strings of variable length; nix passes the bytes of an OsString unchanged.
nix::sockopt_impl!(
    Ipv4Options,
    SetOnly,
    libc::IPPROTO_IP,
    libc::IP_OPTIONS,
    OsString,
    sockopt::SetOsString<'_>
);
nix::sockopt_impl!(
    HopByHop,
    SetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_HOPOPTS,
    OsString,
    sockopt::SetOsString<'_>
);
nix::sockopt_impl!(
    DestinationOptions,
    SetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_DSTOPTS,
    OsString,
    sockopt::SetOsString<'_>
);

/// Makes the socket send this many words of "no operation" options (RFC 791, section 3.1), at most ten.
pub fn send_ipv4_options(socket: &impl AsFd, words: usize) {
    setsockopt(socket, Ipv4Options, &OsString::from_vec(vec![1; 4 * words])).unwrap();
}

/// Makes the socket send a hop-by-hop and a destination options header with these numbers of 8-byte units. Each is
/// filled with one option that receivers skip: 0x1e, for experiments (RFC 4727, section 3), because Linux drops packets
/// with more than seven bytes of padding. This requires `CAP_NET_RAW`.
pub fn send_ipv6_extensions(socket: &impl AsFd, hop_by_hop: usize, destination: usize) -> nix::Result<()> {
    let header = |units: usize| {
        let mut header = vec![0; 8 * units];
        header[1] = (units - 1) as u8;
        header[2] = 0x1e;
        header[3] = (8 * units - 4) as u8;
        OsString::from_vec(header)
    };
    setsockopt(socket, HopByHop, &header(hop_by_hop))?;
    setsockopt(socket, DestinationOptions, &header(destination))
}
