//! Groups of sockets that a generated program steers, and the options that put headers between addresses and ports.

use corelane_rss::Steering;
use corelane_rss::steer::{self, Families, Program};
use nix::setsockopt_impl;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// Longer than any packet takes on loopback, shorter than anyone waits for a failing test.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Sockets bound to `address`, one a bucket, with the program attached. Port 0 becomes a port that is free.
pub fn group(steering: &Steering, kind: Type, mut address: SocketAddr, families: Families) -> Vec<Socket> {
    let mut sockets = Vec::new();
    for _ in 0..steering.cpus.len() {
        let socket = Socket::new(Domain::for_address(address), kind, None).unwrap();
        if address.is_ipv6() {
            socket.set_only_v6(families == Families::V6).unwrap();
        }
        socket.set_reuse_port(true).unwrap();
        socket.bind(&address.into()).unwrap();
        if kind == Type::STREAM {
            socket.listen(1024).unwrap();
        }
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        address.set_port(port(&socket));
        sockets.push(socket);
    }
    attach(&sockets[0], &steer::program(steering, families).unwrap());
    sockets
}

pub fn attach(socket: &impl AsFd, program: &Program) {
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
    setsockopt(socket, sockopt::AttachReusePortCbpf, &program).unwrap();
}

pub fn port(socket: &Socket) -> u16 {
    socket.local_addr().unwrap().as_socket().unwrap().port()
}

// Values of these options are bytes of a length of one's choice; nix passes an OsString's bytes as they are.
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

/// Makes the socket send so many words of "no operation" options (RFC 791, section 3.1), at most ten.
pub fn send_ipv4_options(socket: &impl AsFd, words: usize) {
    setsockopt(socket, Ipv4Options, &OsString::from_vec(vec![1; 4 * words])).unwrap();
}

/// Makes the socket send a hop-by-hop and a destination options header of so many units of eight bytes, each filled with
/// one option that receivers skip: 0x1e, for experiments (RFC 4727, section 3). Linux drops packets with more than seven
/// bytes of padding. This takes `CAP_NET_RAW`.
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
