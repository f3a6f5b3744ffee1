//! Writes the headers of a tunnel around a frame or a packet.

use super::plan::{DontFragment, Plan, Wrap};
use corelane_packet::ethernet::EtherType;
use corelane_packet::{Dissection, IpProtocol, checksum};
use std::net::IpAddr;

/// Destination port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// The first port of those that RFC 7348, section 5, recommends as source, and the bits of the hash that choose one.
const FIRST_PORT: u16 = 49_152;
const PORTS: u32 = 0x3fff;

/// Flag of a valid network identifier (RFC 7348, section 5), and of a key (RFC 2890, section 2).
const VXLAN_VALID: u8 = 1 << 3;
const GRE_KEY: u16 = 1 << 13;

const DONT_FRAGMENT: u8 = 0x40;

/// The lowest two bits of a traffic class.
const ECN: u8 = 0b11;

/// What the headers take over from the packet inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner {
    /// IPv6, not IPv4.
    is_v6: bool,
    class: u8,
    dont_fragment: bool,
}

impl Inner {
    pub(super) fn of(packet: &Dissection<'_>) -> Inner {
        let is_v6 = packet.source().is_ipv6();
        Inner {
            is_v6,
            class: packet.traffic_class(),
            dont_fragment: !is_v6 && packet.frame()[packet.network_offset() + 6] & DONT_FRAGMENT != 0,
        }
    }

    /// A frame without IP.
    pub(super) const NOT_IP: Inner = Inner {
        is_v6: false,
        class: 0,
        dont_fragment: false,
    };
}

/// The headers of a tunnel, from IP on, without what differs from packet to packet.
#[derive(Debug)]
pub(super) struct Headers {
    plan: Plan,
    bytes: Vec<u8>,
    /// Bytes of the IP header.
    ip: usize,
}

impl Headers {
    pub(super) fn of(plan: Plan) -> Headers {
        let mut bytes = match (plan.local, plan.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let fixed = [0x45, 0, 0, 0, 0, 0, 0, 0, plan.ttl, 0, 0, 0];
                [&fixed[..], &local.octets(), &remote.octets()].concat()
            }
            (local, remote) => {
                let fixed = [0x60, 0, 0, 0, 0, 0, 0, plan.ttl];
                let octets = |address| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                    IpAddr::V6(v6) => v6.octets(),
                };
                [&fixed[..], &octets(local), &octets(remote)].concat()
            }
        };
        let ip = bytes.len();
        match plan.wrap {
            Wrap::Vxlan { vni } => {
                bytes.extend([0, 0]);
                bytes.extend(VXLAN_PORT.to_be_bytes());
                bytes.extend([0, 0, 0, 0, VXLAN_VALID, 0, 0, 0]);
                bytes.extend((vni << 8).to_be_bytes());
            }
            Wrap::Gre { key: None } => bytes.extend([0; 4]),
            Wrap::Gre { key: Some(key) } => {
                bytes.extend(GRE_KEY.to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(key.to_be_bytes());
            }
            Wrap::Ipip => {}
        }
        Headers { plan, bytes, ip }
    }

    /// Their length in bytes.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The type of the packet that begins with them.
    pub(super) fn ether_type(&self) -> EtherType {
        match self.is_v6() {
            true => EtherType::IPV6,
            false => EtherType::IPV4,
        }
    }

    /// The longest packet that their length fields allow (RFC 791, section 3.1; RFC 8200, section 3).
    pub(super) fn longest(&self) -> usize {
        let before = if self.is_v6() { self.ip } else { 0 };
        before + usize::from(u16::MAX)
    }

    /// Writes them to the start of `packet`, which has the content behind them.
    pub(super) fn write(&self, packet: &mut [u8], inner: Inner, hash: u32, identification: u16) {
        let (length, ip) = (packet.len(), self.ip);
        packet[..self.bytes.len()].copy_from_slice(&self.bytes);
        let class = self.class(inner.class);
        let protocol = self.protocol(inner).0;
        if self.is_v6() {
            packet[0] |= class >> 4;
            packet[1] = class << 4;
            put16(packet, 4, (length - ip) as u16);
            packet[6] = protocol;
        } else {
            packet[1] = class;
            put16(packet, 2, length as u16);
            put16(packet, 4, identification);
            packet[6] = if self.dont_fragment(inner) {
                DONT_FRAGMENT
            } else {
                0
            };
            packet[9] = protocol;
            let checksum = checksum::internet(&packet[..ip]);
            put16(packet, 10, checksum);
        }
        match self.plan.wrap {
            Wrap::Ipip => {}
            Wrap::Gre { .. } => {
                let ether_type = if inner.is_v6 {
                    EtherType::IPV6
                } else {
                    EtherType::IPV4
                };
                put16(packet, ip + 2, ether_type.0);
            }
            Wrap::Vxlan { .. } => {
                put16(packet, ip, FIRST_PORT + (hash & PORTS) as u16);
                put16(packet, ip + 4, (length - ip) as u16);
                if self.is_v6() {
                    put16(packet, ip + 6, datagram_checksum(packet, ip));
                }
            }
        }
    }

    fn is_v6(&self) -> bool {
        self.plan.local.is_ipv6()
    }

    /// Congestion marks are copied, whatever the class (normal mode: RFC 6040, section 4.1).
    fn class(&self, inner: u8) -> u8 {
        match self.plan.dscp {
            Some(dscp) => dscp << 2 | inner & ECN,
            None => inner,
        }
    }

    fn dont_fragment(&self, inner: Inner) -> bool {
        match self.plan.df {
            DontFragment::Inherit => inner.dont_fragment,
            DontFragment::Set => true,
            DontFragment::Unset => false,
        }
    }

    fn protocol(&self, inner: Inner) -> IpProtocol {
        match self.plan.wrap {
            Wrap::Vxlan { .. } => IpProtocol::UDP,
            Wrap::Gre { .. } => IpProtocol::GRE,
            Wrap::Ipip if inner.is_v6 => IpProtocol::IPV6,
            Wrap::Ipip => IpProtocol::IPV4,
        }
    }
}

/// The checksum of UDP over IPv6, whose field is zero (RFC 8200, section 8.1); zero itself is written as all ones.
fn datagram_checksum(packet: &[u8], at: usize) -> u16 {
    let datagram = &packet[at..];
    let pseudo_header = checksum::sum(&packet[8..at]) + u64::from(IpProtocol::UDP.0) + datagram.len() as u64;
    match checksum::finished(pseudo_header + checksum::sum(datagram)) {
        0 => u16::MAX,
        checksum => checksum,
    }
}

fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}
