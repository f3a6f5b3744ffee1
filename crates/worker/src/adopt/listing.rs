//! The kernel's socket lists. Input: a process (for its network namespace) and a port. Output: the sockets that serve
//! the port, in list order.

use crate::group::Transport;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A line of `/proc/net/tcp` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub transport: Transport,
    pub address: SocketAddr,
    pub inode: u32,
}

/// States of `net/tcp_states.h`: TCP_LISTEN, and TCP_CLOSE, which unconnected UDP sockets are in.
const LISTENING: &str = "0A";
const UNCONNECTED: &str = "07";

/// Listeners and unconnected sockets of a port in the network namespace of a process.
pub(super) fn serving(process: u32, port: u16) -> io::Result<Vec<Listed>> {
    let mut serving = Vec::new();
    for (file, transport, state) in [
        ("tcp", Transport::Tcp, LISTENING),
        ("tcp6", Transport::Tcp, LISTENING),
        ("udp", Transport::Udp, UNCONNECTED),
        ("udp6", Transport::Udp, UNCONNECTED),
    ] {
        let text = match fs::read_to_string(format!("/proc/{process}/net/{file}")) {
            Ok(text) => text,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound && file.ends_with('6') => continue,
            Err(error) => return Err(error),
        };
        let lines = text.lines().filter_map(|line| listed(line, transport, state));
        serving.extend(lines.filter(|socket| socket.address.port() == port));
    }
    Ok(serving)
}

/// The inodes of a group's sockets in group order. New sockets are added to the front of the list, except TCP over IPv6
/// to its end (`inet_hash` in `net/ipv4/inet_hashtables.c`, `udp_lib_get_port` in `net/ipv4/udp.c`).
pub(super) fn in_group_order(transport: Transport, address: SocketAddr, listed: &[Listed]) -> Vec<u32> {
    let inodes = listed.iter().map(|socket| socket.inode);
    match (transport, address) {
        (Transport::Tcp, SocketAddr::V6(_)) => inodes.collect(),
        _ => inodes.rev().collect(),
    }
}

fn listed(line: &str, transport: Transport, state: &str) -> Option<Listed> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, found, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    (*found == state).then_some(())?;
    let (address, port) = local.split_once(':')?;
    let address = SocketAddr::new(ip(address)?, u16::from_str_radix(port, 16).ok()?);
    let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
    Some(Listed {
        transport,
        address,
        inode,
    })
}

/// An address as the kernel prints it: 32-bit words, each as a number of this machine's byte order.
fn ip(text: &str) -> Option<IpAddr> {
    let words = (0..text.len()).step_by(8).map(|at| {
        let word = u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    if let Ok(bytes) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(&bytes[..])
        .ok()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_families_are_read_and_others_left_out() {
        let v4 = "   1: 0100007F:47FF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4524219 1 0";
        let expected = Listed {
            transport: Transport::Tcp,
            address: "127.0.0.1:18431".parse().unwrap(),
            inode: 4_524_219,
        };
        assert_eq!(listed(v4, Transport::Tcp, LISTENING), Some(expected));
        assert_eq!(listed(v4, Transport::Udp, UNCONNECTED), None);
        let v6 = "0: 00000000000000000000000001000000:47FF 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 7 1";
        let found = listed(v6, Transport::Tcp, LISTENING).unwrap();
        assert_eq!((found.address, found.inode), ("[::1]:18431".parse().unwrap(), 7));
        for damaged in [
            "",
            "sl local_address rem_address st",
            "1: 0100007F 0 0A 0 0 0 0 0 5",
        ] {
            assert_eq!(listed(damaged, Transport::Tcp, LISTENING), None);
        }
    }
}
