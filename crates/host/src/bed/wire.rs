//! The netlink messages that make and configure a veth pair, in the network namespace of the calling thread.

use std::net::IpAddr;
use std::os::fd::RawFd;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::HostError;
use crate::netlink::Netlink;

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
        let netlink = Netlink::open(NETLINK_ROUTE).map_err(|cause| HostError::Netlink {
            step: "a routing socket".to_owned(),
            cause,
        })?;
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
        self.create(
            || format!("a veth pair {} and {}", near.device, far.device),
            RouteNetlinkMessage::NewLink(link),
        )
    }

    /// The index of a device.
    pub(super) fn index(&mut self, device: &str) -> Result<u32, HostError> {
        Ok(self.link(device)?.header.index)
    }

    /// Whether a device has carrier, and with it a queue that does not drop everything: the kernel sets both under one lock
    /// (`linkwatch_do_dev` in `net/core/link_watch.c`).
    pub(super) fn is_up(&mut self, device: &str) -> Result<bool, HostError> {
        let attributes = self.link(device)?.attributes;
        Ok(attributes.contains(&LinkAttribute::OperState(State::Up)))
    }

    /// Whether what is sent to `address` stays on this side.
    pub(super) fn is_local(&mut self, address: IpAddr) -> bool {
        self.route_towards(address)
            .is_some_and(|route| route.header.kind == RouteType::Local)
    }

    /// The source address of what is sent to `destination` by who binds none; `None` while there is none.
    pub(super) fn source_towards(&mut self, destination: IpAddr) -> Option<IpAddr> {
        let route = self.route_towards(destination)?;
        route
            .attributes
            .into_iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::PrefSource(RouteAddress::Inet(address)) => Some(address.into()),
                RouteAttribute::PrefSource(RouteAddress::Inet6(address)) => Some(address.into()),
                _ => None,
            })
    }

    /// The route the kernel would take: what `ip route get` asks. `None` while there is none.
    fn route_towards(&mut self, destination: IpAddr) -> Option<RouteMessage> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = IpNet::from(destination).prefix_len();
        message.attributes = vec![RouteAttribute::Destination(destination.into())];
        let answers = self.netlink.request(RouteNetlinkMessage::GetRoute(message), 0);
        answers.ok()?.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        })
    }

    /// Receive and transmit queues of a device.
    pub(super) fn queues(&mut self, device: &str) -> Result<(u32, u32), HostError> {
        let (mut receive, mut transmit) = (0, 0);
        for attribute in self.link(device)?.attributes {
            match attribute {
                LinkAttribute::NumRxQueues(queues) => receive = queues,
                LinkAttribute::NumTxQueues(queues) => transmit = queues,
                _ => {}
            }
        }
        Ok((receive, transmit))
    }

    /// Switches a device on.
    pub(super) fn switch_on(&mut self, index: u32) -> Result<(), HostError> {
        self.set_flags(index, LinkFlags::Up, LinkFlags::Up)
    }

    /// Switches a device off.
    pub(super) fn switch_off(&mut self, index: u32) -> Result<(), HostError> {
        self.set_flags(index, LinkFlags::empty(), LinkFlags::Up)
    }

    /// Whether a device is switched on.
    pub(super) fn is_switched_on(&mut self, device: &str) -> Result<bool, HostError> {
        Ok(self.link(device)?.header.flags.contains(LinkFlags::Up))
    }

    /// Switches a device on and tells the kernel that nobody on it resolves addresses: no ARP, no neighbour discovery, no
    /// duplicate address detection, no report of solicited-node multicast (`IFF_NOARP` in `net/ipv6/addrconf.c`).
    pub(super) fn switch_on_without_resolution(&mut self, index: u32) -> Result<(), HostError> {
        let flags = LinkFlags::Up | LinkFlags::Noarp;
        self.set_flags(index, flags, flags)
    }

    /// Gives a device one address, without a route to its neighbours and without duplicate address detection.
    pub(super) fn add_address(&mut self, index: u32, address: IpAddr) -> Result<(), HostError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = IpNet::from(address).max_prefix_len();
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        self.create(
            || format!("address {address}"),
            RouteNetlinkMessage::NewAddress(message),
        )
    }

    /// Names the link address of a neighbour once and for all.
    pub(super) fn add_neighbour(
        &mut self,
        index: u32,
        neighbour: IpAddr,
        link_address: [u8; 6],
    ) -> Result<(), HostError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(neighbour);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(match neighbour {
                IpAddr::V4(address) => address.into(),
                IpAddr::V6(address) => address.into(),
            }),
            NeighbourAttribute::LinkLayerAddress(link_address.to_vec()),
        ];
        self.create(
            || format!("neighbour {neighbour}"),
            RouteNetlinkMessage::NewNeighbour(message),
        )
    }

    /// Takes every address of `prefix` as this host's own: what `ip route add local PREFIX dev lo` does.
    pub(super) fn add_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        self.create(
            || format!("a local route for {prefix}"),
            RouteNetlinkMessage::NewRoute(local_route(prefix, loopback)),
        )
    }

    /// Takes back what [`add_local_route`](Self::add_local_route) did.
    pub(super) fn remove_local_route(&mut self, loopback: u32, prefix: IpNet) -> Result<(), HostError> {
        self.request(
            || format!("the end of the local route for {prefix}"),
            RouteNetlinkMessage::DelRoute(local_route(prefix, loopback)),
            0,
        )
        .map(drop)
    }

    /// Sends `prefix` to `gateway`, which is taken to be on the link without being asked for.
    pub(super) fn add_route(&mut self, index: u32, prefix: IpNet, gateway: IpAddr) -> Result<(), HostError> {
        let mut message = route(prefix, index);
        message.header.flags = RouteFlags::Onlink;
        message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        self.create(
            || format!("a route to {prefix}"),
            RouteNetlinkMessage::NewRoute(message),
        )
    }

    /// Gives those flags of a device that `mask` names these values.
    fn set_flags(&mut self, index: u32, flags: LinkFlags, mask: LinkFlags) -> Result<(), HostError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = flags;
        message.header.change_mask = mask;
        self.request(
            || format!("switching device {index}"),
            RouteNetlinkMessage::SetLink(message),
            0,
        )
        .map(drop)
    }

    fn link(&mut self, device: &str) -> Result<LinkMessage, HostError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(device.to_owned())];
        let answers = self.request(
            || format!("the state of device {device}"),
            RouteNetlinkMessage::GetLink(message),
            0,
        )?;
        answers
            .into_iter()
            .find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => Some(link),
                _ => None,
            })
            .ok_or_else(|| HostError::Missing {
                place: "netlink",
                what: format!("device {device}"),
            })
    }

    fn create(&mut self, step: impl Fn() -> String, message: RouteNetlinkMessage) -> Result<(), HostError> {
        self.request(step, message, NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    fn request(
        &mut self,
        step: impl Fn() -> String,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, HostError> {
        self.netlink
            .request(message, flags)
            .map_err(|cause| HostError::Netlink { step: step(), cause })
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
        address_family: family(prefix.addr()),
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

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
