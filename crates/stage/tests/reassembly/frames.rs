//! Frames with fragments.

use corelane_packet::checksum;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A protocol for experiments (RFC 3692), and UDP.
pub const EXPERIMENT: u8 = 253;
pub const UDP: u8 = 17;

/// A fragment to be written.
#[derive(Clone, Debug)]
pub struct Fragment {
    pub family: Family,
    pub protocol: u8,
    pub id: u32,
    pub offset: usize,
    pub more: bool,
    pub data: Vec<u8>,
    /// Type of service, or traffic class.
    pub class: u8,
    /// Flags of IPv4 beside the more-fragments flag.
    pub flags: u8,
    pub ttl: u8,
    /// Options of IPv4; headers before the fragment header of IPv6, whose first byte names the next header, and the number of
    /// the first.
    pub options: (u8, Vec<u8>),
    /// Between the addresses of Ethernet and the type.
    pub tags: Vec<u8>,
    /// The last byte of the source and of the destination.
    pub ends: [u8; 2],
}

impl Fragment {
    pub fn new(family: Family, id: u32, offset: usize, more: bool, data: &[u8]) -> Fragment {
        Fragment {
            family,
            protocol: EXPERIMENT,
            id,
            offset,
            more,
            data: data.to_vec(),
            class: 0,
            flags: 0,
            ttl: 64,
            options: (0, Vec::new()),
            tags: Vec::new(),
            ends: [1, 1],
        }
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let packet = self.packet();
        let ether_type = match self.family {
            Family::V4 => [0x08, 0x00],
            Family::V6 => [0x86, 0xdd],
        };
        [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2],
            &self.tags[..],
            &ether_type,
            &packet,
        ]
        .concat()
    }

    /// The packet, from its IP header on.
    pub fn packet(&self) -> Vec<u8> {
        match self.family {
            Family::V4 => self.v4(),
            Family::V6 => self.v6(),
        }
    }

    fn v4(&self) -> Vec<u8> {
        let (_, options) = &self.options;
        let header = 20 + options.len();
        let field = (self.offset / 8) as u16 | u16::from(self.more) << 13 | u16::from(self.flags) << 8;
        let mut packet = vec![0x40 | (header / 4) as u8, self.class];
        packet.extend(((header + self.data.len()) as u16).to_be_bytes());
        packet.extend((self.id as u16).to_be_bytes());
        packet.extend(field.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(self.ends.map(|end| [127, 0, 0, end]).as_flattened());
        packet.extend(options);
        let sum = checksum::internet(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        packet.extend(&self.data);
        packet
    }

    fn v6(&self) -> Vec<u8> {
        let (first, headers) = &self.options;
        let next = if headers.is_empty() { 44 } else { *first };
        let length = headers.len() + 8 + self.data.len();
        let mut packet = vec![0x60 | self.class >> 4, self.class << 4, 0, 0];
        packet.extend((length as u16).to_be_bytes());
        packet.extend([next, self.ttl]);
        packet.extend(self.ends.map(|end| u128::from(end).to_be_bytes()).as_flattened());
        packet.extend(headers);
        packet.extend([self.protocol, 0]);
        packet.extend((self.offset as u16 | u16::from(self.more)).to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend(&self.data);
        packet
    }
}

/// The data behind the IP header of a whole datagram's frame without options and tags.
pub fn data(frame: &[u8]) -> &[u8] {
    match frame[14] >> 4 {
        4 => &frame[34..],
        _ => &frame[54..],
    }
}

/// Data that differs from any other of its length.
pub fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8 ^ seed).collect()
}
