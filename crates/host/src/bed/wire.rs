//! The netlink messages that create and configure a veth pair in the calling thread's network namespace.

use std::net::IpAddr;
use std::os::fd::RawFd;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::HostError;
use crate::netlink::Netlink;
use crate::netlink::links::{self, Link};

/// The routing table of addresses that are this host's own (`RT_TABLE_LOCAL` in `linux/rtnetlink.h`).
const TABLE_LOCAL: u8 = 255;

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
        let mut peer = end(far, mtu, queues);
        peer.attributes.push(LinkAttribute::NetNsFd(far_namespace));
        let mut link = end(near, mtu, queues);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let step = format!("a veth pair {} and {}", near.device, far.device);
        self.create(step, RouteNetlinkMessage::NewLink(link))
    }

    /// The link attributes of a device. When the state is `up`, the device has carrier and a queue that passes frames:
    /// the kernel sets both under one lock (`linkwatch_do_dev` in `net/core/link_watch.c`).
    pub(super) fn link(&mut self, device: &str) -> Result<Link, HostError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(device.to_owned())];
        let step = format!("the state of device {device}");
        let answers = self.request(step, RouteNetlinkMessage::GetLink(message), 0)?;
        let link = answers.into_iter().find_map(links::device);
        link.map(|(_, link)| link)
            .ok_or_else(|| HostError::missing("netlink", format!("device {device}")))
    }

    /// Whether what is sent to `address` stays on this side.
    pub(super) fn is_local(&mut self, address: IpAddr) -> bool {
        self.route_towards(address)
            .is_some_and(|route| route.header.kind == RouteType::Local)
    }

    /// Whether packets to `destination` from an unbound socket have source address `source`.
    pub(super) fn comes_from(&mut self, source: IpAddr, destination: IpAddr) -> bool {
        let source = RouteAttribute::PrefSource(source.into());
        self.route_towards(destination)
            .is_some_and(|route| route.attributes.contains(&source))
    }

    /// The route that the kernel would choose, like `ip route get`. `None` if there is none.
    fn route_towards(&mut self, destination: IpAddr) -> Option<RouteMessage> {
        let mut message = RouteMessage::default();
        message.header.address_family = destination.into();
        message.header.destination_prefix_length = IpNet::from(destination).prefix_len();
        message.attributes = vec![RouteAttribute::Destination(destination.into())];
        let answers = self.netlink.request(RouteNetlinkMessage::GetRoute(message), 0);
        answers.ok()?.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        })
    }

    /// Adds one address to a device, without a route to its neighbours and without duplicate address detection.
    pub(super) fn add_address(&mut self, index: u32, address: IpAddr) -> Result<(), HostError> {
        let mut message = AddressMessage::default();
        message.header.family = address.into();
        message.header.prefix_len = IpNet::from(address).max_prefix_len();
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        let step = format!("address {address}");
        self.create(step, RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds a permanent neighbour entry.
    pub(super) fn add_neighbour(
        &mut self,
        index: u32,
        neighbour: IpAddr,
        link_address: [u8; 6],
    ) -> Result<(), HostError> {
        let mut message = NeighbourMessage::default();
        message.header.family = neighbour.into();
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(neighbour.into()),
            NeighbourAttribute::LinkLayerAddress(link_address.to_vec()),
        ];
        let step = format!("neighbour {neighbour}");
        self.create(step, RouteNetlinkMessage::NewNeighbour(message))
    }

    /// Makes every address of `prefix` local, like `ip route add local PREFIX dev lo`.
    pub(super) fn add_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        let route = local_route(prefix, loopback);
        let step = format!("a local route for {prefix}");
        self.create(step, RouteNetlinkMessage::NewRoute(route))
    }

    /// Reverts [`add_local_route`](Self::add_local_route).
    pub(super) fn remove_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        let route = local_route(prefix, loopback);
        let step = format!("the end of the local route for {prefix}");
        self.request(step, RouteNetlinkMessage::DelRoute(route), 0)
            .map(drop)
    }

    /// Routes `prefix` to `gateway`, which is assumed to be on the link (`onlink`).
    pub(super) fn add_route(&mut self, index: u32, prefix: IpNet, gateway: IpAddr) -> Result<(), HostError> {
        let mut message = route(prefix, index);
        message.header.flags = RouteFlags::Onlink;
        message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        let step = format!("a route to {prefix}");
        self.create(step, RouteNetlinkMessage::NewRoute(message))
    }

    /// Brings a device up with these flags, or down without any.
    ///
    /// `Noarp` disables all address resolution on the device: no ARP, no neighbour discovery, no duplicate address
    /// detection, no report of solicited-node multicast (`IFF_NOARP` in `net/ipv6/addrconf.c`).
    pub(super) fn switch(&mut self, index: u32, flags: LinkFlags) -> Result<(), HostError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = flags;
        message.header.change_mask = flags | LinkFlags::Up;
        let step = format!("switching device {index}");
        self.request(step, RouteNetlinkMessage::SetLink(message), 0)
            .map(drop)
    }

    fn create(&mut self, step: String, message: RouteNetlinkMessage) -> Result<(), HostError> {
        self.request(step, message, NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    fn request(
        &mut self,
        step: String,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, HostError> {
        let answers = self.netlink.request(message, flags);
        answers.map_err(HostError::netlink(step))
    }
}

fn end(end: &End, mtu: Option<u32>, queues: Option<u32>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(end.device.to_owned()),
        LinkAttribute::Address(end.link_address.to_vec()),
    ];
    message.attributes.extend(mtu.map(LinkAttribute::Mtu));
    if let Some(queues) = queues {
        message.attributes.push(LinkAttribute::NumTxQueues(queues));
        message.attributes.push(LinkAttribute::NumRxQueues(queues));
    }
    message
}

fn route(prefix: IpNet, index: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: prefix.addr().into(),
        destination_prefix_length: prefix.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(prefix.network().into()),
        RouteAttribute::Oif(index),
    ];
    message
}

fn local_route(prefix: IpNet, loopback: u32) -> RouteMessage {
    let mut message = route(prefix, loopback);
    message.header.table = TABLE_LOCAL;
    message.header.kind = RouteType::Local;
    message.header.scope = RouteScope::Host;
    message
}
