//! Sockets as sock_diag netlink lists them (`struct inet_diag_req_v2` and `struct inet_diag_msg` in `linux/inet_diag.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::owners::Owner;
use crate::HostError;
use crate::netlink::{Netlink, Raw};

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

/// Socket states (`net/tcp_states.h`); a request has one bit per state. Unconnected UDP sockets are in the state
/// TCP_CLOSE.
pub(super) const LISTENING: u8 = 10;
pub(super) const UNCONNECTED: u8 = 7;

/// The candidate sockets, a superset of the matching ones: for TCP the connection itself if it exists, and otherwise
/// all listeners of the port; for UDP all its sockets.
pub(super) fn sockets(protocol: u8, local: SocketAddr, remote: SocketAddr) -> Result<Vec<Owner>, HostError> {
    let tcp = i32::from(protocol) == libc::IPPROTO_TCP;
    if tcp && remote.port() != 0 {
        let mut netlink =
            Netlink::open(NETLINK_SOCK_DIAG).map_err(HostError::netlink("the list of sockets"))?;
        let exact = request(protocol, local, Some(remote), !0);
        // A missing connection is a distinct error; a listener is found below with its whole group.
        let answers = netlink.request(exact, 0).unwrap_or_default();
        let connection = answers.iter().filter_map(listed).find(|socket| !socket.listens);
        if let Some(connection) = connection {
            return Ok(vec![connection]);
        }
    }
    of_port(protocol, local.port(), if tcp { 1 << LISTENING } else { !0 })
}

/// The sockets of a port of both families, in the kernel's order. The kernel filters by port, so a list of sockets that
/// change meanwhile misses none.
pub(super) fn of_port(protocol: u8, port: u16, states: u32) -> Result<Vec<Owner>, HostError> {
    let failed = || HostError::netlink("the list of sockets");
    let mut netlink = Netlink::open(NETLINK_SOCK_DIAG).map_err(failed())?;
    let mut found = Vec::new();
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    for family in any {
        let all = request(protocol, SocketAddr::new(family, port), None, states);
        match netlink.request(all, NLM_F_DUMP) {
            Ok(answers) => found.extend(answers.iter().filter_map(listed)),
            // A kernel without IPv6.
            Err(_) if family.is_ipv6() => {}
            Err(error) => return Err(failed()(error)),
        }
    }
    Ok(found)
}

fn request(protocol: u8, local: SocketAddr, remote: Option<SocketAddr>, states: u32) -> Raw {
    let family = if local.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut bytes = vec![family as u8, protocol, 0, 0];
    bytes.extend(states.to_ne_bytes());
    let remote = remote.unwrap_or(SocketAddr::new(local.ip(), 0));
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    bytes.extend(sixteen(local.ip()));
    bytes.extend(sixteen(remote.ip()));
    bytes.extend(0_u32.to_ne_bytes());
    // `INET_DIAG_NOCOOKIE`, twice.
    bytes.extend([0xff; 8]);
    Raw {
        kind: BY_FAMILY,
        bytes,
    }
}

fn listed(answer: &Raw) -> Option<Owner> {
    let bytes = answer.bytes.get(..72)?;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let v4 = i32::from(bytes[0]) == libc::AF_INET;
    let address = |at: usize| -> Option<IpAddr> {
        let sixteen: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
        let [a, b, c, d, ..] = sixteen;
        Some(if v4 { [a, b, c, d].into() } else { sixteen.into() })
    };
    let inode = u32::from_ne_bytes(bytes[68..72].try_into().ok()?);
    let local = SocketAddr::new(address(8)?, port(4));
    let remote = SocketAddr::new(address(24)?, port(6));
    Some(Owner::listed(inode, local, remote, bytes[1] == LISTENING))
}

/// An address in a field of sixteen bytes.
fn sixteen(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        let local = "10.0.0.1:258".parse().unwrap();
        let Raw { bytes, .. } = request(17, local, Some("10.0.0.2:772".parse().unwrap()), 5);
        assert_eq!(bytes.len(), 56);
        assert_eq!(bytes[..4], [libc::AF_INET as u8, 17, 0, 0]);
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 10, 0, 0, 1]);
        assert_eq!(bytes[28..32], [10, 0, 0, 2]);
    }

    #[test]
    fn an_answer_that_is_cut_off_is_passed_over() {
        let mut bytes = vec![libc::AF_INET6 as u8, 1, 0, 0];
        bytes.resize(72, 1);
        let of = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            listed(&Raw { kind: 20, bytes })
        };
        assert!(of(&bytes).is_some_and(|socket| !socket.listens));
        for length in 0..72 {
            assert_eq!(of(&bytes[..length]), None);
        }
    }
}
