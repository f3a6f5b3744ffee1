//! Sockets as sock_diag netlink lists them (`struct inet_diag_req_v2` and `struct inet_diag_msg` in `linux/inet_diag.h`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_packet_core::{NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::Listed;
use crate::HostError;
use crate::netlink::Netlink;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

/// A state of sockets (`net/tcp_states.h`); a request has a bit for each.
const LISTENING: u8 = 10;

/// The sockets that may fit, more than do: of TCP the connection itself where it is there, and otherwise all listeners; of
/// UDP all.
pub(super) fn sockets(protocol: u8, local: SocketAddr, remote: SocketAddr) -> Result<Vec<Listed>, HostError> {
    let failed = |cause| HostError::Netlink {
        step: "the list of sockets".to_owned(),
        cause,
    };
    let mut netlink = Netlink::open(NETLINK_SOCK_DIAG).map_err(failed)?;
    if i32::from(protocol) == libc::IPPROTO_TCP && remote.port() != 0 {
        let exact = Message::request(protocol, local, Some(remote), !0);
        // What is not there is an error of its own; a listener is found below with its whole group.
        let answers = netlink.request(exact, 0).unwrap_or_default();
        let connection = answers
            .iter()
            .filter_map(Message::listed)
            .find(|socket| !socket.listens);
        if let Some(connection) = connection {
            return Ok(vec![connection]);
        }
    }
    let states = match i32::from(protocol) {
        libc::IPPROTO_TCP => 1 << LISTENING,
        _ => !0,
    };
    let mut listed = Vec::new();
    // A socket of IPv6 takes packets of IPv4 unless it says otherwise.
    let any = [
        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    ];
    for family in any {
        if local.is_ipv6() && family.is_ipv4() {
            continue;
        }
        let request = Message::request(protocol, family, None, states);
        match netlink.request(request, NLM_F_DUMP) {
            Ok(answers) => listed.extend(answers.iter().filter_map(Message::listed)),
            // A kernel without IPv6.
            Err(_) if family.is_ipv6() && local.is_ipv4() => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(listed)
}

/// A request or an answer, as it stands on the wire.
#[derive(Clone, Debug)]
struct Message(Vec<u8>);

impl Message {
    fn request(protocol: u8, local: SocketAddr, remote: Option<SocketAddr>, states: u32) -> Self {
        let family = match local {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
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
        Self(bytes)
    }

    fn listed(&self) -> Option<Listed> {
        let bytes = &self.0;
        let port = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let v4 = i32::from(*bytes.first()?) == libc::AF_INET;
        let address = |at: usize| -> Option<IpAddr> {
            let sixteen: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
            Some(match v4 {
                true => Ipv4Addr::new(sixteen[0], sixteen[1], sixteen[2], sixteen[3]).into(),
                false => Ipv6Addr::from(sixteen).into(),
            })
        };
        Some(Listed {
            local: SocketAddr::new(address(8)?, port(4)?),
            remote: SocketAddr::new(address(24)?, port(6)?),
            listens: bytes[1] == LISTENING,
            inode: u32::from_ne_bytes(bytes.get(68..72)?.try_into().ok()?),
        })
    }
}

/// An address in a field of sixteen bytes.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        self.0.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0);
    }
}

impl NetlinkDeserializable for Message {
    type Error = io::Error;

    fn deserialize(_header: &NetlinkHeader, payload: &[u8]) -> Result<Self, io::Error> {
        Ok(Self(payload.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        let local = "10.0.0.1:258".parse().unwrap();
        let Message(bytes) = Message::request(17, local, Some("10.0.0.2:772".parse().unwrap()), 5);
        assert_eq!(bytes.len(), 56);
        assert_eq!(bytes[..4], [libc::AF_INET as u8, 17, 0, 0]);
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 10, 0, 0, 1]);
        assert_eq!(bytes[28..32], [10, 0, 0, 2]);
    }

    #[test]
    fn an_answer_that_is_cut_off_is_passed_over() {
        let mut bytes = vec![libc::AF_INET6 as u8, 1, 0, 0];
        bytes.resize(72, 1);
        assert!(
            Message(bytes.clone())
                .listed()
                .is_some_and(|socket| !socket.listens)
        );
        for length in 0..72 {
            assert_eq!(Message(bytes[..length].to_vec()).listed(), None);
        }
    }
}
