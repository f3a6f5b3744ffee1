//! The addresses of a bed: validates plans, removes the server from client pools, maps plans to loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

use super::BedPlan;

/// The address that each end configures for the other as its neighbour. It never appears in a packet: only its link
/// address is used. RFC 7600 reserves 192.0.0.8 as a dummy; IPv6 uses a link-local address.
pub(super) const GATEWAY_IPV4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// See [`GATEWAY_IPV4`].
pub(super) const GATEWAY_IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The maximum number of queues of a new device (`rtnl_create_link` in `net/core/rtnetlink.c`).
const MAXIMUM_QUEUES: u32 = 4096;

/// Why a plan is invalid on every machine, as one sentence with the fix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Server and range are of different address families.
    #[error("server {0} and range {1} are of different address families: use one family in a bed")]
    Families(IpAddr, IpNet),
    /// A network of the server and a pool of clients overlap.
    #[error(
        "server network {0} and client pool {1} overlap: an address belongs to one side; choose another range for \
         either"
    )]
    Overlap(IpNet, IpNet),
    /// No connection is requested.
    #[error("0 connections requested: use at least 1")]
    NoConnections,
    /// The pools have no address besides that of the server.
    #[error("no client address besides the server {0}: use a pool with at least one other address")]
    NoClient(IpAddr),
    /// A range that the ends of a link cannot have.
    #[error(
        "{range} cannot be used in a test bed: it overlaps {reserved}, {why}; choose a private range such as 10.11.2.0/24 \
         or fd00:11:2::/64"
    )]
    Reserved {
        /// The range.
        range: IpNet,
        /// The reserved range.
        reserved: IpNet,
        /// Its purpose.
        why: &'static str,
    },
    /// The MTU.
    #[error("an MTU of {mtu} bytes is outside {lowest} to {highest}")]
    Mtu {
        /// In bytes.
        mtu: u32,
        /// The lowest for the family.
        lowest: u32,
        /// The highest.
        highest: u32,
    },
    /// The number of queues.
    #[error("{0} queues are outside 1 to {MAXIMUM_QUEUES}")]
    Queues(u32),
}

/// Rejects invalid plans before anything is created; returns the first usable client address.
pub(super) fn check(plan: &BedPlan) -> Result<IpAddr, PlanError> {
    let server = plan.server;
    let ranges = || plan.clients.iter().chain(&plan.server_networks);
    if let Some(range) = ranges().find(|range| range.addr().is_ipv4() != server.is_ipv4()) {
        return Err(PlanError::Families(server, *range));
    }
    for network in &plan.server_networks {
        if let Some(pool) = plan.clients.iter().find(|pool| overlap(network, pool)) {
            return Err(PlanError::Overlap(*network, *pool));
        }
    }
    if plan.connections == Some(0) {
        return Err(PlanError::NoConnections);
    }
    let Some(client) = first_client(server, &plan.clients) else {
        return Err(PlanError::NoClient(server));
    };
    for range in ranges().copied().chain([IpNet::from(server)]) {
        if let Some((reserved, why)) = reserved().find(|(reserved, _)| overlap(&range, reserved)) {
            return Err(PlanError::Reserved { range, reserved, why });
        }
    }
    // The minimum is 68 for IPv4 (RFC 791) and 1280 for IPv6 (RFC 8200); veth accepts up to 65535 (`ETH_MAX_MTU`).
    let (lowest, highest) = (if server.is_ipv4() { 68 } else { 1280 }, 65_535);
    if let Some(mtu) = plan.mtu.filter(|mtu| !(lowest..=highest).contains(mtu)) {
        return Err(PlanError::Mtu { mtu, lowest, highest });
    }
    match plan.queues {
        Some(queues) if !(1..=MAXIMUM_QUEUES).contains(&queues) => Err(PlanError::Queues(queues)),
        _ => Ok(client),
    }
}

/// The pools, adjacent ones merged, host bits cleared.
pub(super) fn merged(pools: &[IpNet]) -> Vec<IpNet> {
    let cleared: Vec<IpNet> = pools.iter().map(IpNet::trunc).collect();
    IpNet::aggregate(&cleared)
}

/// The prefixes that together are `pool` without `address`.
///
/// Halves the pool around the address until only the address is left: at most one prefix per address bit.
pub(super) fn without(pool: IpNet, address: IpAddr) -> Vec<IpNet> {
    if !pool.contains(&address) {
        return vec![pool];
    }
    let mut kept = Vec::new();
    let mut around = pool.trunc();
    while let Ok(halves) = around.subnets(around.prefix_len() + 1) {
        for half in halves {
            if half.contains(&address) {
                around = half;
            } else {
                kept.push(half);
            }
        }
    }
    kept
}

/// The first usable client address of the pools: not the server's, and not a network's own first address unless the
/// pool has no other.
pub(super) fn first_client(server: IpAddr, pools: &[IpNet]) -> Option<IpAddr> {
    let candidates = |pool: &IpNet| {
        let own = pool.network();
        // Three candidates suffice: at most one is the server and one is the network's own address.
        let nth = |n| match own {
            IpAddr::V4(first) => Some(IpAddr::V4(u32::from(first).checked_add(n)?.into())),
            IpAddr::V6(first) => Some(IpAddr::V6(u128::from(first).checked_add(n.into())?.into())),
        };
        let mut first: Vec<IpAddr> = (0..3).filter_map(nth).collect();
        first.retain(|address| pool.contains(address) && *address != server);
        first.sort_by_key(|address| (*address == own, *address));
        first.first().copied()
    };
    pools.iter().find_map(candidates)
}

/// Maps server, first client and pools to the loopback range: 127.0.0.0/8 keeps the lower 24 bits, IPv6 has only `::1` (RFC 4291, 2.5.3).
pub(super) fn on_loopback(plan: &BedPlan) -> (IpAddr, IpAddr, Vec<IpNet>) {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            let [_, b, c, d] = address.octets();
            IpAddr::from([127, b, c, d])
        }
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let pool = |pool: &IpNet| {
        let least = if pool.addr().is_ipv4() { 8 } else { 128 };
        IpNet::new_assert(address(pool.network()), pool.prefix_len().max(least))
    };
    let pools: Vec<IpNet> = plan.clients.iter().map(pool).collect();
    let (server, pools) = (address(plan.server), merged(&pools));
    let client = first_client(server, &pools).unwrap_or(server);
    (server, client, pools)
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Ranges that cannot be the addresses of a link's ends (RFC 6890), and the bed's neighbour address.
fn reserved() -> impl Iterator<Item = (IpNet, &'static str)> {
    let ranges = [
        ("0.0.0.0/8", "\"this network\""),
        ("127.0.0.0/8", "which never leaves its host"),
        ("224.0.0.0/4", "which is multicast"),
        ("255.255.255.255/32", "which is broadcast"),
        ("::/128", "the unspecified address"),
        ("::1/128", "which never leaves its host"),
        ("fe80::/10", "which needs a device beside the address"),
        ("ff00::/8", "which is multicast"),
    ];
    let ranges = ranges.into_iter().map(|(range, why)| {
        let range = range.parse().expect("the ranges above are prefixes");
        (range, why)
    });
    let gateway = IpNet::from(IpAddr::V4(GATEWAY_IPV4));
    ranges.chain([(gateway, "which the bed itself uses for the neighbour")])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn plan(server: &str, pools: &[&str]) -> BedPlan {
        BedPlan::new(address(server), pools.iter().map(|pool| net(pool)).collect())
    }

    #[test]
    fn a_pool_is_split_around_the_server() {
        assert_eq!(
            without(net("10.11.2.0/29"), address("10.11.2.1")),
            ["10.11.2.4/30", "10.11.2.2/31", "10.11.2.0/32"].map(net)
        );
        assert_eq!(without(net("10.11.2.1/32"), address("10.11.2.1")), []);
        assert_eq!(
            without(net("10.11.2.0/24"), address("10.11.3.1")),
            [net("10.11.2.0/24")]
        );
        assert_eq!(without(net("fd00::/64"), address("fd00::1")).len(), 64);
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_split_are_the_pool_without_the_server(
            base: u32, prefix in 20u8..=32, offset: u32,
        ) {
            let pool = ipnet::Ipv4Net::new(base.into(), prefix).unwrap().trunc();
            let size = 1u64 << (32 - prefix);
            let server = Ipv4Addr::from(u32::from(pool.network()) + (u64::from(offset) % size) as u32);
            let mut pieces = 0u64;
            for piece in without(pool.into(), server.into()) {
                prop_assert!(IpNet::V4(pool).contains(&piece));
                prop_assert!(!piece.contains(&IpAddr::V4(server)));
                pieces += 1u64 << (32 - piece.prefix_len());
            }
            prop_assert_eq!(pieces, size - 1);
        }
    }

    #[test]
    fn the_first_client_is_neither_the_server_nor_the_network() {
        let first = |server, pools: &[&str]| {
            let plan = plan(server, pools);
            first_client(plan.server, &plan.clients).map(|client| client.to_string())
        };
        assert_eq!(first("10.11.2.1", &["10.11.2.0/24"]).unwrap(), "10.11.2.2");
        assert_eq!(first("10.11.3.1", &["10.11.2.0/24"]).unwrap(), "10.11.2.1");
        assert_eq!(first("10.11.2.1", &["10.11.2.0/31"]).unwrap(), "10.11.2.0");
        assert_eq!(
            first("10.11.2.1", &["10.11.2.1/32", "10.12.0.9/32"]).unwrap(),
            "10.12.0.9"
        );
        assert_eq!(first("10.11.2.1", &["10.11.2.1/32"]), None);
        assert_eq!(first("fd00::1", &["fd00::/64"]).unwrap(), "fd00::2");
        assert_eq!(
            first("10.0.0.1", &["255.255.255.255/32"]).unwrap(),
            "255.255.255.255"
        );
    }

    #[test]
    fn plans_that_no_machine_can_meet_are_refused_by_what_is_wrong() {
        let refusal = |plan: BedPlan| check(&plan).unwrap_err().to_string();
        assert!(refusal(plan("10.11.2.1", &[])).contains("no client address"));
        assert!(refusal(plan("10.11.2.1", &["10.11.2.1/32"])).contains("no client address"));
        assert!(refusal(plan("10.11.2.1", &["fd00::/64"])).contains("fd00::/64"));
        assert!(refusal(plan("127.0.0.1", &["10.0.0.0/8"])).contains("127.0.0.0/8"));
        assert!(refusal(plan("10.11.2.1", &["0.0.0.0/0"])).contains("0.0.0.0/0"));
        assert!(refusal(plan("10.11.2.1", &["192.0.0.0/24"])).contains("192.0.0.8"));
        assert!(refusal(plan("fe80::5", &["fd00::/64"])).contains("fe80::5"));
        let mtu = BedPlan {
            mtu: Some(1279),
            ..plan("fd00::1", &["fd00::/64"])
        };
        assert_eq!(refusal(mtu), "an MTU of 1279 bytes is outside 1280 to 65535");
        let queues = BedPlan {
            queues: Some(0),
            ..plan("10.11.2.1", &["10.11.2.0/24"])
        };
        assert_eq!(refusal(queues), "0 queues are outside 1 to 4096");
        let twice = BedPlan {
            server_networks: vec![net("10.11.0.0/16")],
            ..plan("10.11.2.1", &["10.11.2.0/24"])
        };
        assert!(refusal(twice).contains("10.11.0.0/16 and client pool 10.11.2.0/24 overlap"));
        let none = BedPlan {
            connections: Some(0),
            ..plan("10.11.2.1", &["10.11.2.0/24"])
        };
        assert!(refusal(none).contains("at least 1"));
    }

    #[test]
    fn loopback_keeps_the_lower_bits_of_the_plan() {
        let (server, client, pools) = on_loopback(&plan("10.11.2.1", &["10.11.2.0/24", "172.16.0.0/12"]));
        assert_eq!((server, client), (address("127.11.2.1"), address("127.11.2.2")));
        assert_eq!(pools, ["127.11.2.0/24", "127.16.0.0/12"].map(net));
        let (server, client, pools) = on_loopback(&plan("fd00::1", &["fd00::/64"]));
        assert_eq!((server, client), (address("::1"), address("::1")));
        assert_eq!(pools, [net("::1/128")]);
    }
}
