//! The devices of the calling thread's network namespace, their addresses, and the routes.
//!
//! Output: [`Link`]s, addresses and [`Route`]s, over the kernel's routing netlink interface
//! (`Documentation/networking/netlink_spec/rt-link.rst`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_ROUTE;
use serde::{Deserialize, Serialize};

use super::attributes::{address_in, byte_in, first, number_in, text_in};
use super::{Netlink, Raw};
use crate::HostError;

/// Bytes of `struct ifinfomsg`, of `struct ifaddrmsg` of `linux/if_addr.h`, and of `struct rtmsg`, both others of
/// `linux/rtnetlink.h`.
pub(crate) const LINK_HEADER: usize = 16;
pub(crate) const ADDRESS_HEADER: usize = 8;
pub(crate) const ROUTE_HEADER: usize = 12;

/// Where the kind of a route is in its header (`rtm_type`).
pub(crate) const ROUTE_KIND: usize = 7;

/// Attributes of an XDP program (`linux/if_link.h`): the attach mode, and the number of the program in any mode and in
/// each.
const XDP_ATTACHED: u16 = 2;
const XDP_PROGRAMS: [u16; 4] = [4, 5, 6, 7];

/// Attributes of a bond (`linux/if_link.h`).
const BOND_MODE: u16 = 1;
const BOND_HASH_POLICY: u16 = 14;

/// Operational states (`linux/if.h`), attach modes of XDP programs (`linux/if_link.h`; the first is none), modes of bonds
/// and their hash policies (`Documentation/networking/bonding.rst`), each by its number.
const STATES: [&str; 7] = [
    "unknown",
    "notpresent",
    "down",
    "lowerlayerdown",
    "testing",
    "dormant",
    "up",
];
const XDP_MODES: [&str; 5] = ["", "driver", "generic", "hardware", "several"];
const BOND_MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];
const BOND_HASH_POLICIES: [&str; 6] = [
    "layer2",
    "layer3+4",
    "layer2+3",
    "encap2+3",
    "encap3+4",
    "vlan+srcmac",
];

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
    // An empty header selects all.
    let mut dump = |step, kind, header: usize| {
        let bytes = vec![0; header];
        let answers = netlink.request(Raw { kind, bytes }, NLM_F_DUMP);
        answers.map_err(HostError::netlink(step))
    };
    let devices = dump("the list of devices", libc::RTM_GETLINK, LINK_HEADER)?;
    let addresses = dump("the list of addresses", libc::RTM_GETADDR, ADDRESS_HEADER)?;
    let routes = dump("the routes", libc::RTM_GETROUTE, ROUTE_HEADER)?;
    let mut links = Links {
        devices: devices.iter().filter_map(device).collect(),
        routes: routes.iter().filter_map(route).collect(),
        ..Links::default()
    };
    for (index, address) in addresses.iter().filter_map(address) {
        links.addresses.entry(index).or_default().push(address);
    }
    links.routes_left_off = links.routes.len().saturating_sub(MOST_ROUTES);
    links.routes.truncate(MOST_ROUTES);
    Ok(links)
}

/// The name and attributes of a device, from a message.
pub(crate) fn device(answer: &Raw) -> Option<(String, Link)> {
    let (header, attributes) = answer.parts(libc::RTM_NEWLINK, LINK_HEADER)?;
    let has = |flag: i32| number_at(header, 8).is_some_and(|flags| flags & flag as u32 != 0);
    let number = |kind| number_in(attributes, kind);
    let information = first(attributes, libc::IFLA_LINKINFO).unwrap_or_default();
    let kind = text_in(&information, libc::IFLA_INFO_KIND);
    let bytes = first(attributes, libc::IFLA_ADDRESS).unwrap_or_default();
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let bond = first(&information, libc::IFLA_INFO_DATA).filter(|_| kind.as_deref() == Some("bond"));
    let link = Link {
        index: number_at(header, 4)?,
        up: has(libc::IFF_UP),
        state: word(attributes, libc::IFLA_OPERSTATE, &STATES).unwrap_or_else(|| STATES[0].to_owned()),
        mtu: number(libc::IFLA_MTU),
        link_address: bytes.join(":"),
        receive_queues: number(libc::IFLA_NUM_RX_QUEUES),
        transmit_queues: number(libc::IFLA_NUM_TX_QUEUES),
        controller: number(libc::IFLA_MASTER),
        lower: number(libc::IFLA_LINK),
        lower_elsewhere: first(attributes, libc::IFLA_LINK_NETNSID).is_some(),
        xdp: first(attributes, libc::IFLA_XDP).and_then(|attributes| xdp(&attributes)),
        bond: bond.map(|attributes| Bond {
            mode: word(&attributes, BOND_MODE, &BOND_MODES),
            hash_policy: word(&attributes, BOND_HASH_POLICY, &BOND_HASH_POLICIES),
        }),
        kind: kind.or_else(|| has(libc::IFF_LOOPBACK).then(|| "loopback".to_owned())),
    };
    Some((text_in(attributes, libc::IFLA_IFNAME)?, link))
}

/// What the number in an attribute of one byte means; `None` if it is absent, or newer than these words.
fn word(attributes: &[u8], kind: u16, words: &[&str]) -> Option<String> {
    let word = words.get(usize::from(byte_in(attributes, kind)?))?;
    Some((*word).to_owned())
}

/// The 32-bit number at this place of a header, in native byte order.
fn number_at(header: &[u8], at: usize) -> Option<u32> {
    let bytes = header.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn xdp(attributes: &[u8]) -> Option<Xdp> {
    let mode = word(attributes, XDP_ATTACHED, &XDP_MODES).filter(|mode| !mode.is_empty())?;
    let ids = XDP_PROGRAMS.into_iter();
    let mut programs: Vec<u32> = ids.filter_map(|kind| number_in(attributes, kind)).collect();
    programs.sort_unstable();
    programs.dedup();
    Some(Xdp { mode, programs })
}

fn address(answer: &Raw) -> Option<(u32, IpNet)> {
    let (header, attributes) = answer.parts(libc::RTM_NEWADDR, ADDRESS_HEADER)?;
    // On point-to-point links `IFA_LOCAL` is this machine's address, `IFA_ADDRESS` the neighbour's.
    let local = address_in(attributes, libc::IFA_LOCAL);
    let own = local.or_else(|| address_in(attributes, libc::IFA_ADDRESS))?;
    Some((number_at(header, 4)?, IpNet::new(own, header[1]).ok()?))
}

fn route(answer: &Raw) -> Option<Route> {
    let (header, attributes) = answer.parts(libc::RTM_NEWROUTE, ROUTE_HEADER)?;
    let local = match header[ROUTE_KIND] {
        libc::RTN_LOCAL => true,
        libc::RTN_UNICAST => false,
        _ => return None,
    };
    let any: IpAddr = match header[0].into() {
        libc::AF_INET => [0; 4].into(),
        libc::AF_INET6 => [0_u8; 16].into(),
        _ => return None,
    };
    let to = address_in(attributes, libc::RTA_DST).unwrap_or(any);
    // The first hop (`struct rtnexthop` of `linux/rtnetlink.h`).
    let hop = || number_at(&first(attributes, libc::RTA_MULTIPATH)?, 4);
    Some(Route {
        to: IpNet::new(to, header[1]).ok()?,
        local,
        device: number_in(attributes, libc::RTA_OIF).or_else(hop)?,
        priority: number_in(attributes, libc::RTA_PRIORITY).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::attributes::{bytes as attribute, nest, number, text};
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
        let attributes = [attribute(XDP_ATTACHED, vec![2]), number(4, 9), number(6, 9)].concat();
        let expected = Xdp {
            mode: "generic".to_owned(),
            programs: vec![9],
        };
        assert_eq!(xdp(&attributes), Some(expected));
        assert_eq!(xdp(&attribute(XDP_ATTACHED, vec![0])), None);
    }

    #[test]
    fn a_bond_is_read_with_its_mode_and_hash_policy_and_a_route_with_its_first_hop() {
        let parameters = [
            attribute(BOND_MODE, vec![4]),
            attribute(BOND_HASH_POLICY, vec![1]),
        ]
        .concat();
        let information = [
            text(libc::IFLA_INFO_KIND, "bond"),
            nest(libc::IFLA_INFO_DATA, parameters),
        ];
        let attributes = [
            text(libc::IFLA_IFNAME, "bond0"),
            attribute(libc::IFLA_OPERSTATE, vec![6]),
            nest(libc::IFLA_LINKINFO, information.concat()),
        ];
        let bytes = [vec![0; LINK_HEADER], attributes.concat()].concat();
        let kind = libc::RTM_NEWLINK;
        let (name, link) = device(&Raw { kind, bytes }).unwrap();
        let bond = link.bond.unwrap();
        assert_eq!(
            (name.as_str(), link.state.as_str(), link.up),
            ("bond0", "up", false)
        );
        assert_eq!(
            [bond.mode.as_deref(), bond.hash_policy.as_deref()],
            [Some("802.3ad"), Some("layer3+4")]
        );
        let hop = [&16_u16.to_ne_bytes()[..], &[0, 0], &7_u32.to_ne_bytes(), &[0; 8]].concat();
        let header = vec![
            libc::AF_INET as u8,
            0,
            0,
            0,
            0,
            0,
            0,
            libc::RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        let bytes = [header, attribute(libc::RTA_MULTIPATH, hop)].concat();
        let kind = libc::RTM_NEWROUTE;
        let found = route(&Raw { kind, bytes }).unwrap();
        assert_eq!((found.to.to_string().as_str(), found.device), ("0.0.0.0/0", 7));
    }
}
