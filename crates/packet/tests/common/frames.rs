//! Frames built layer by layer, from the inside out, so that a test shows every header that it concerns.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An Ethernet frame with these tags (type and control information), outermost first.
pub fn ethernet(tags: &[(u16, u16)], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (tag, control) in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend(control.to_be_bytes());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of an IPv4 header that tests vary.
#[derive(Clone, Copy)]
pub struct V4<'a> {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub protocol: u8,
    /// A multiple of 4 bytes.
    pub options: &'a [u8],
    /// Flags and offset as on the wire.
    pub fragment: u16,
    pub identification: u16,
}

impl V4<'_> {
    /// From 66.9.149.187 to 161.142.100.80, as in the first row of the RSS verification suite.
    pub const SUITE: V4<'static> = V4 {
        source: Ipv4Addr::new(66, 9, 149, 187),
        destination: Ipv4Addr::new(161, 142, 100, 80),
        protocol: 17,
        options: &[],
        fragment: 0,
        identification: 0,
    };

    /// An untagged Ethernet frame with the packet.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        ethernet(&[], 0x0800, &self.packet(payload))
    }

    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut packet = vec![0x40 | (header / 4) as u8, 0];
        packet.extend(((header + payload.len()) as u16).to_be_bytes());
        packet.extend(self.identification.to_be_bytes());
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([64, self.protocol, 0, 0]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(self.options);
        let checksum = corelane_packet::checksum::internet(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

/// The fields of an IPv6 header, and its extension headers: type, and bytes from the third on.
#[derive(Clone)]
pub struct V6 {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub protocol: u8,
}

impl V6 {
    /// From 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1, as in the first IPv6 row of the RSS verification suite.
    pub fn suite(extensions: Vec<(u8, Vec<u8>)>, protocol: u8) -> V6 {
        V6 {
            source: "3ffe:2501:200:1fff::7".parse().unwrap(),
            destination: "3ffe:2501:200:3::1".parse().unwrap(),
            extensions,
            protocol,
        }
    }

    /// An untagged Ethernet frame with the packet.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        ethernet(&[], 0x86dd, &self.packet(payload))
    }

    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let mut behind = Vec::new();
        let following = self.extensions.iter().skip(1).map(|(kind, _)| *kind);
        for ((kind, body), next) in self.extensions.iter().zip(following.chain([self.protocol])) {
            let length = match kind {
                44 => 0,
                51 => (body.len() + 2) / 4 - 2,
                _ => (body.len() + 2) / 8 - 1,
            };
            behind.extend([next, length as u8]);
            behind.extend(body);
        }
        behind.extend(payload);
        let first = self.extensions.first().map_or(self.protocol, |(kind, _)| *kind);
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((behind.len() as u16).to_be_bytes());
        packet.extend([first, 64]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(behind);
        packet
    }
}

/// A destination options header with only padding and a home address option.
pub fn home_address(address: &str) -> (u8, Vec<u8>) {
    let mut body = vec![1, 2, 0, 0, 0xc9, 16];
    body.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    (60, body)
}

/// A routing header type 2 with one segment left.
pub fn routing_type_2(address: &str) -> (u8, Vec<u8>) {
    let mut body = vec![2, 1, 0, 0, 0, 0];
    body.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    (43, body)
}

/// A fragment header: offset in bytes, and whether more fragments follow.
pub fn fragment_header(offset: u16, more: bool, identification: u32) -> (u8, Vec<u8>) {
    let mut body = (offset | u16::from(more)).to_be_bytes().to_vec();
    body.extend(identification.to_be_bytes());
    (44, body)
}

/// A hop-by-hop options header with only padding.
pub fn hop_by_hop() -> (u8, Vec<u8>) {
    (0, vec![1, 4, 0, 0, 0, 0])
}

/// An authentication header with an integrity check value of 12 bytes.
pub fn authentication() -> (u8, Vec<u8>) {
    let mut body = vec![0; 2];
    body.extend([0, 0, 1, 0, 0, 0, 0, 1]);
    body.extend([0xaa; 12]);
    (51, body)
}

pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let mut segment = [source, destination, length, 0].map(u16::to_be_bytes).concat();
    segment.extend(payload);
    segment
}

pub fn tcp(source: u16, destination: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut segment = [source, destination].map(u16::to_be_bytes).concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend([0, 0, 0, 0, 0x50, 0x10, 0x04, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// An SCTP packet with one data chunk and an empty checksum.
pub fn sctp(source: u16, destination: u16) -> Vec<u8> {
    let mut packet = [source, destination].map(u16::to_be_bytes).concat();
    packet.extend([0, 0, 0, 7, 0, 0, 0, 0]);
    packet.extend([0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4]);
    packet
}
