//! A network namespace of this process, with any addresses on its loopback device. It ends with the process.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use std::net::{IpAddr, Ipv6Addr};

/// The index of the loopback device in every new namespace (`LOOPBACK_IFINDEX` in `net/flow.h`).
pub const LOOPBACK: u32 = 1;

/// Moves this process, which must have a single thread, into a new network namespace, if necessary through a user
/// namespace of its own.
pub fn enter() -> nix::Result<()> {
    let network = CloneFlags::CLONE_NEWNET;
    if geteuid().is_root() && unshare(network).is_ok() {
        return Ok(());
    }
    unshare(network | CloneFlags::CLONE_NEWUSER)
}

/// Brings the loopback device up and adds these addresses and all IPv6 multicast to it. The multicast route is a local
/// one, because Linux rejects packets by any other route through a loopback device (`fib6_is_reject` in
/// `net/ipv6/route.c`).
pub fn set_up_loopback(addresses: impl IntoIterator<Item = IpAddr>) {
    let mut link = LinkMessage::default();
    link.header.index = LOOPBACK;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = link.header.flags;
    request(RouteNetlinkMessage::SetLink(link));

    let mut multicast = RouteMessage::default();
    multicast.header.address_family = AddressFamily::Inet6;
    multicast.header.destination_prefix_length = 8;
    multicast.header.kind = RouteType::Local;
    let prefix = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);
    multicast.attributes = vec![
        RouteAttribute::Destination(prefix.into()),
        RouteAttribute::Oif(LOOPBACK),
    ];
    request(RouteNetlinkMessage::NewRoute(multicast));

    for address in addresses {
        let mut message = AddressMessage::default();
        message.header.index = LOOPBACK;
        (message.header.family, message.header.prefix_len) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        request(RouteNetlinkMessage::NewAddress(message));
    }
}

/// Sets the MTU of the loopback device.
pub fn set_loopback_mtu(mtu: u32) {
    let mut link = LinkMessage::default();
    link.header.index = LOOPBACK;
    link.attributes = vec![LinkAttribute::Mtu(mtu)];
    request(RouteNetlinkMessage::SetLink(link));
}

/// Sends one request and waits for the kernel's acknowledgement.
fn request(message: RouteNetlinkMessage) {
    let description = format!("{message:?}");
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0).unwrap();
    let (answer, _) = socket.recv_from_full().unwrap();
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .unwrap()
        .payload
    {
        NetlinkPayload::Error(status) => assert!(status.code.is_none(), "{description}: {status:?}"),
        other => panic!("{description}: {other:?}"),
    }
}
