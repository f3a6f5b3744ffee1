//! The devices of the calling thread's network namespace, their addresses, and the routes.
//!
//! Output: [`Link`]s, addresses and [`Route`]s, over the kernel's routing netlink interface
//! (`Documentation/networking/netlink_spec/rt-link.rst`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBond, InfoData, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, XdpAttached,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use serde::{Deserialize, Serialize};

use super::Netlink;
use crate::HostError;

/// The maximum number of routes kept. A router with a full table has a hundred times as many, but these suffice to name
/// the devices.
const MOST_ROUTES: usize = 10_000;

/// The kernel's own attributes of a device, without querying its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The interface index in its namespace.
    pub index: u32,
    /// The kind of a virtual device: `veth`, `bond`, `vlan`; `loopback` for loopback.
    pub kind: Option<String>,
    /// Whether it is up.
    pub up: bool,
    /// The operational state, in words of RFC 2863: `up`, `down`, `unknown`.
    pub state: String,
    /// The MTU, in bytes.
    pub mtu: Option<u32>,
    /// The link (MAC) address in hexadecimal; empty if it has none.
    pub link_address: String,
    /// Allocated receive queues; fewer may be in use.
    pub receive_queues: Option<u32>,
    /// Allocated transmit queues.
    pub transmit_queues: Option<u32>,
    /// The index of the bond, bridge or VRF that it belongs to.
    pub controller: Option<u32>,
    /// The index of the lower device (VLAN, macvlan), or of the other end (veth).
    pub lower: Option<u32>,
    /// Whether that other device is in another namespace; its index is then not valid here.
    pub lower_elsewhere: bool,
    /// The attached XDP program.
    pub xdp: Option<Xdp>,
    /// The bond parameters.
    pub bond: Option<Bond>,
}

/// An XDP program on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xdp {
    /// The attach mode: `driver`, `generic`, `hardware` or `several`.
    pub mode: String,
    /// The kernel's ids of the programs.
    pub programs: Vec<u32>,
}

/// How a bond distributes frames over its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bond {
    /// Its mode, such as `802.3ad`.
    pub mode: Option<String>,
    /// The transmit hash policy, such as `layer3+4`.
    pub hash_policy: Option<String>,
}

/// A route: a prefix and its output device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destination; a prefix of length 0 is the default route.
    pub to: IpNet,
    /// Whether these addresses are local to this machine.
    pub local: bool,
    /// The index of the device.
    pub device: u32,
    /// The metric; the route with the lowest metric is preferred.
    pub priority: u32,
}

/// The devices by name, their addresses by index, and the routes.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) devices: BTreeMap<String, Link>,
    pub(crate) addresses: BTreeMap<u32, Vec<IpNet>>,
    pub(crate) routes: Vec<Route>,
    pub(crate) routes_left_off: usize,
}

pub(crate) fn links() -> Result<Links, HostError> {
    let mut netlink = Netlink::open(NETLINK_ROUTE).map_err(HostError::netlink("a routing socket"))?;
    let mut dump = |step, message| {
        let answers = netlink.request(message, NLM_F_DUMP);
        answers.map_err(HostError::netlink(step))
    };
    let devices = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    let routes = RouteNetlinkMessage::GetRoute(RouteMessage::default());
    let devices = dump("the list of devices", devices)?;
    let addresses = dump("the list of addresses", addresses)?;
    let routes = dump("the routes", routes)?;
    let mut links = Links {
        devices: devices.into_iter().filter_map(device).collect(),
        routes: routes.into_iter().filter_map(route).collect(),
        ..Links::default()
    };
    for (index, address) in addresses.into_iter().filter_map(address) {
        links.addresses.entry(index).or_default().push(address);
    }
    links.routes_left_off = links.routes.len().saturating_sub(MOST_ROUTES);
    links.routes.truncate(MOST_ROUTES);
    Ok(links)
}

/// The name and attributes of a device, from a message.
pub(crate) fn device(message: RouteNetlinkMessage) -> Option<(String, Link)> {
    let RouteNetlinkMessage::NewLink(message) = message else {
        return None;
    };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        up: flags.contains(LinkFlags::Up),
        state: "unknown".to_owned(),
        kind: flags.contains(LinkFlags::Loopback).then(|| "loopback".to_owned()),
        ..Link::default()
    };
    let mut name = None;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = Some(found),
            LinkAttribute::Mtu(mtu) => link.mtu = Some(mtu),
            LinkAttribute::OperState(state) => link.state = format!("{state:?}").to_lowercase(),
            LinkAttribute::Address(bytes) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                link.link_address = bytes.join(":");
            }
            LinkAttribute::NumRxQueues(queues) => link.receive_queues = Some(queues),
            LinkAttribute::NumTxQueues(queues) => link.transmit_queues = Some(queues),
            LinkAttribute::Controller(index) => link.controller = Some(index),
            LinkAttribute::Link(index) => link.lower = Some(index),
            LinkAttribute::LinkNetNsId(_) => link.lower_elsewhere = true,
            LinkAttribute::Xdp(attributes) => link.xdp = xdp(&attributes),
            LinkAttribute::LinkInfo(information) => {
                for part in information {
                    match part {
                        LinkInfo::Kind(kind) => link.kind = Some(kind.to_string()),
                        LinkInfo::Data(InfoData::Bond(attributes)) => link.bond = Some(bond(&attributes)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some((name?, link))
}

fn xdp(attributes: &[LinkXdp]) -> Option<Xdp> {
    let mut mode = None;
    let mut programs = Vec::new();
    for attribute in attributes {
        match attribute {
            LinkXdp::Attached(XdpAttached::None) => return None,
            LinkXdp::Attached(attached) => {
                mode = Some(match attached {
                    XdpAttached::Driver => "driver",
                    XdpAttached::SocketBuffer => "generic",
                    XdpAttached::Hardware => "hardware",
                    _ => "several",
                });
            }
            LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
                programs.push(*id);
            }
            _ => {}
        }
    }
    programs.sort_unstable();
    programs.dedup();
    mode.map(|mode| Xdp {
        mode: mode.to_owned(),
        programs,
    })
}

fn bond(attributes: &[InfoBond]) -> Bond {
    let mut bond = Bond::default();
    for attribute in attributes {
        match attribute {
            InfoBond::Mode(mode) => bond.mode = Some(mode.to_string()),
            InfoBond::XmitHashPolicy(policy) => bond.hash_policy = Some(policy.to_string()),
            _ => {}
        }
    }
    bond
}

fn address(message: RouteNetlinkMessage) -> Option<(u32, IpNet)> {
    let RouteNetlinkMessage::NewAddress(message) = message else {
        return None;
    };
    let prefix = message.header.prefix_len;
    // On point-to-point links `Local` is this machine's address, `Address` the neighbour's.
    let mut own = None;
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(address) => own = Some(address),
            AddressAttribute::Address(address) => own = own.or(Some(address)),
            _ => {}
        }
    }
    Some((message.header.index, IpNet::new(own?, prefix).ok()?))
}

fn route(message: RouteNetlinkMessage) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = message else {
        return None;
    };
    let local = match message.header.kind {
        RouteType::Local => true,
        RouteType::Unicast => false,
        _ => return None,
    };
    let mut to: IpAddr = match message.header.address_family {
        AddressFamily::Inet => [0; 4].into(),
        AddressFamily::Inet6 => [0_u8; 16].into(),
        _ => return None,
    };
    let (mut device, mut priority) = (None, 0);
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => to = address.into(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => to = address.into(),
            RouteAttribute::Oif(index) => device = Some(index),
            RouteAttribute::Priority(number) => priority = number,
            RouteAttribute::MultiPath(hops) => {
                device = device.or(hops.first().map(|hop| hop.interface_index));
            }
            _ => {}
        }
    }
    let to = IpNet::new(to, message.header.destination_prefix_length).ok()?;
    Some(Route {
        to,
        local,
        device: device?,
        priority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_its_kind_number_and_address() {
        let links = links().unwrap();
        let loopback = &links.devices["lo"];
        assert_eq!(loopback.kind.as_deref(), Some("loopback"));
        let addresses = &links.addresses[&loopback.index];
        assert!(
            addresses.contains(&"127.0.0.1/8".parse().unwrap()),
            "{addresses:?}"
        );
        let own = |route: &Route| route.local && route.to.contains(&IpAddr::from([127, 0, 0, 1]));
        assert!(links.routes.iter().any(own), "{:?}", links.routes);
    }

    #[test]
    fn a_program_is_read_with_its_mode_and_number() {
        let attributes = [
            LinkXdp::Attached(XdpAttached::SocketBuffer),
            LinkXdp::ProgId(9),
            LinkXdp::SkbProgId(9),
        ];
        let expected = Xdp {
            mode: "generic".to_owned(),
            programs: vec![9],
        };
        assert_eq!(xdp(&attributes), Some(expected));
        assert_eq!(xdp(&[LinkXdp::Attached(XdpAttached::None)]), None);
    }
}
