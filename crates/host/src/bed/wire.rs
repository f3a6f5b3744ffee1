//! The netlink messages that create and configure a veth pair in the calling thread's network namespace.

use std::net::IpAddr;
use std::os::fd::RawFd;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::HostError;
use crate::netlink::attributes::{address, address_in, bytes, nest, number, text};
use crate::netlink::links::{self, Link, ROUTE_HEADER, ROUTE_KIND};
use crate::netlink::{Netlink, Raw};

/// Flags of devices: up, and without address resolution.
pub(super) const UP: u32 = libc::IFF_UP as u32;
pub(super) const NOARP: u32 = libc::IFF_NOARP as u32;

/// The attribute with the other end of a veth pair (`VETH_INFO_PEER` of `linux/veth.h`).
const VETH_PEER: u16 = 1;

/// The gateway is on the link, whatever the addresses say (`RTNH_F_ONLINK` of `linux/rtnetlink.h`).
const ONLINK: u32 = 4;

/// One end of the pair.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Its device's name.
    pub(super) device: &'static str,
    /// Its link (MAC) address.
    pub(super) link_address: [u8; 6],
}

/// A netlink socket in the thread's namespace.
pub(super) struct Wire {
    netlink: Netlink,
}

impl Wire {
    pub(super) fn open() -> Result<Self, HostError> {
        let netlink = Netlink::open(NETLINK_ROUTE).map_err(HostError::netlink("a routing socket"))?;
        Ok(Self { netlink })
    }

    /// Makes a veth pair with `near` here and `far` in the namespace that the descriptor names.
    pub(super) fn pair(
        &mut self,
        near: &End,
        far: &End,
        far_namespace: RawFd,
        mtu: Option<u32>,
        queues: Option<u32>,
    ) -> Result<(), HostError> {
        let namespace = number(libc::IFLA_NET_NS_FD, far_namespace as u32);
        let peer = [link_header(0, 0, 0), end(far, mtu, queues), namespace].concat();
        let information = [
            text(libc::IFLA_INFO_KIND, "veth"),
            nest(libc::IFLA_INFO_DATA, bytes(VETH_PEER, peer)),
        ];
        let pair = [
            link_header(0, 0, 0),
            end(near, mtu, queues),
            nest(libc::IFLA_LINKINFO, information.concat()),
        ];
        let step = format!("a veth pair {} and {}", near.device, far.device);
        self.create(step, libc::RTM_NEWLINK, pair.concat())
    }

    /// The link attributes of a device. When the state is `up`, the device has carrier and a queue that passes frames:
    /// the kernel sets both under one lock (`linkwatch_do_dev` in `net/core/link_watch.c`).
    pub(super) fn link(&mut self, device: &str) -> Result<Link, HostError> {
        let message = [link_header(0, 0, 0), text(libc::IFLA_IFNAME, device)].concat();
        let step = format!("the state of device {device}");
        let answers = self.request(step, libc::RTM_GETLINK, message, 0)?;
        let link = answers.iter().find_map(links::device);
        link.map(|(_, link)| link)
            .ok_or_else(|| HostError::missing("netlink", format!("device {device}")))
    }

    /// Whether what is sent to `address` stays on this side.
    pub(super) fn is_local(&mut self, address: IpAddr) -> bool {
        self.route_towards(address)
            .is_some_and(|(header, _)| header[ROUTE_KIND] == libc::RTN_LOCAL)
    }

    /// Whether packets to `destination` from an unbound socket have source address `source`.
    pub(super) fn comes_from(&mut self, source: IpAddr, destination: IpAddr) -> bool {
        self.route_towards(destination)
            .is_some_and(|(_, attributes)| address_in(&attributes, libc::RTA_PREFSRC) == Some(source))
    }

    /// Header and attributes of the route that the kernel would choose, like `ip route get`. `None` if there is none.
    fn route_towards(&mut self, destination: IpAddr) -> Option<(Vec<u8>, Vec<u8>)> {
        let header = route_header(destination.into(), [0; 4]);
        let kind = libc::RTM_GETROUTE;
        let bytes = [header, address(libc::RTA_DST, destination)].concat();
        let answers = self.netlink.request(Raw { kind, bytes }, 0).ok()?;
        answers.iter().find_map(|answer| {
            let (header, attributes) = answer.parts(libc::RTM_NEWROUTE, ROUTE_HEADER)?;
            Some((header.to_vec(), attributes.to_vec()))
        })
    }

    /// Adds one address to a device, without a route to its neighbours and without duplicate address detection.
    pub(super) fn add_address(&mut self, index: u32, own: IpAddr) -> Result<(), HostError> {
        let flags = if own.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        // `struct ifaddrmsg` of `linux/if_addr.h`: family, prefix length, flags, scope, index.
        let header = [family(own), IpNet::from(own).max_prefix_len(), flags, 0];
        let message = [
            header.to_vec(),
            index.to_ne_bytes().to_vec(),
            address(libc::IFA_LOCAL, own),
            address(libc::IFA_ADDRESS, own),
        ];
        let step = format!("address {own}");
        self.create(step, libc::RTM_NEWADDR, message.concat())
    }

    /// Adds a permanent neighbour entry.
    pub(super) fn add_neighbour(
        &mut self,
        index: u32,
        neighbour: IpAddr,
        link_address: [u8; 6],
    ) -> Result<(), HostError> {
        // `struct ndmsg` of `linux/neighbour.h`: family, padding, index, state, flags, kind.
        let message = [
            vec![family(neighbour), 0, 0, 0],
            index.to_ne_bytes().to_vec(),
            libc::NUD_PERMANENT.to_ne_bytes().to_vec(),
            vec![0, libc::RTN_UNICAST],
            address(libc::NDA_DST, neighbour),
            bytes(libc::NDA_LLADDR, link_address.to_vec()),
        ];
        let step = format!("neighbour {neighbour}");
        self.create(step, libc::RTM_NEWNEIGH, message.concat())
    }

    /// Makes every address of `prefix` local, like `ip route add local PREFIX dev lo`.
    pub(super) fn add_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        let route = local_route(prefix, loopback);
        let step = format!("a local route for {prefix}");
        self.create(step, libc::RTM_NEWROUTE, route)
    }

    /// Reverts [`add_local_route`](Self::add_local_route).
    pub(super) fn remove_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        let route = local_route(prefix, loopback);
        let step = format!("the end of the local route for {prefix}");
        self.request(step, libc::RTM_DELROUTE, route, 0).map(drop)
    }

    /// Routes `prefix` to `gateway`, which is assumed to be on the link (`onlink`).
    pub(super) fn add_route(&mut self, index: u32, prefix: IpNet, gateway: IpAddr) -> Result<(), HostError> {
        let main = [
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
        ];
        let mut message = route(prefix, index, main);
        message[ROUTE_HEADER - 4..ROUTE_HEADER].copy_from_slice(&ONLINK.to_ne_bytes());
        message.extend(address(libc::RTA_GATEWAY, gateway));
        let step = format!("a route to {prefix}");
        self.create(step, libc::RTM_NEWROUTE, message)
    }

    /// Brings a device up with these flags, or down without any.
    ///
    /// [`NOARP`] disables all address resolution on the device: no ARP, no neighbour discovery, no duplicate address
    /// detection, no report of solicited-node multicast (`IFF_NOARP` in `net/ipv6/addrconf.c`).
    pub(super) fn switch(&mut self, index: u32, flags: u32) -> Result<(), HostError> {
        let message = link_header(index, flags, flags | UP);
        let step = format!("switching device {index}");
        self.request(step, libc::RTM_SETLINK, message, 0).map(drop)
    }

    fn create(&mut self, step: String, kind: u16, message: Vec<u8>) -> Result<(), HostError> {
        self.request(step, kind, message, NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }

    fn request(
        &mut self,
        step: String,
        kind: u16,
        bytes: Vec<u8>,
        flags: u16,
    ) -> Result<Vec<Raw>, HostError> {
        let answers = self.netlink.request(Raw { kind, bytes }, flags);
        answers.map_err(HostError::netlink(step))
    }
}

/// The address family of a header.
fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// `struct ifinfomsg` of `linux/rtnetlink.h`: family and type, index, flags, and which flags change.
fn link_header(index: u32, flags: u32, change: u32) -> Vec<u8> {
    [0, index, flags, change].map(u32::to_ne_bytes).concat()
}

/// `struct rtmsg` of `linux/rtnetlink.h`: family, lengths of destination and source, type of service; table, protocol,
/// scope and kind; flags.
fn route_header(to: IpNet, [table, protocol, scope, kind]: [u8; 4]) -> Vec<u8> {
    let (family, length) = (family(to.addr()), to.prefix_len());
    vec![family, length, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0]
}

/// The attributes of one end.
fn end(end: &End, mtu: Option<u32>, queues: Option<u32>) -> Vec<u8> {
    let mut attributes = text(libc::IFLA_IFNAME, end.device);
    attributes.extend(bytes(libc::IFLA_ADDRESS, end.link_address.to_vec()));
    attributes.extend(mtu.iter().flat_map(|mtu| number(libc::IFLA_MTU, *mtu)));
    if let Some(queues) = queues {
        attributes.extend(number(libc::IFLA_NUM_TX_QUEUES, queues));
        attributes.extend(number(libc::IFLA_NUM_RX_QUEUES, queues));
    }
    attributes
}

/// A route to a device; `place` is table, protocol, scope and kind.
fn route(to: IpNet, index: u32, place: [u8; 4]) -> Vec<u8> {
    [
        route_header(to, place),
        address(libc::RTA_DST, to.network()),
        number(libc::RTA_OIF, index),
    ]
    .concat()
}

fn local_route(prefix: IpNet, loopback: u32) -> Vec<u8> {
    let local = [
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    route(prefix, loopback, local)
}
