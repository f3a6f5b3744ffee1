//! The sockets that serve a port, and their order in a group.

use crate::group::Transport;
use corelane_host::{HostError, sockets};
use corelane_rss::Protocol;
use std::net::SocketAddr;

/// A socket in the kernel's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub transport: Transport,
    pub address: SocketAddr,
    pub inode: u32,
}

/// Listeners and unconnected sockets of a port in the network namespace of a process, in the kernel's order.
pub(super) fn serving(process: u32, port: u16) -> Result<Vec<Listed>, HostError> {
    let mut serving = Vec::new();
    for (transport, protocol) in [(Transport::Tcp, Protocol::Tcp), (Transport::Udp, Protocol::Udp)] {
        let sockets = sockets::serving(process, protocol, port)?.into_iter();
        serving.extend(sockets.map(|socket| Listed {
            transport,
            address: socket.local,
            inode: socket.inode,
        }));
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
