//! Frames to bridge, each with a number by which the test identifies it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ADDRESSES: [u8; 12] = [0x02, 0x63, 0x6c, 0, 0, 9, 0x02, 0x63, 0x6c, 0, 0, 8];

/// A UDP datagram between these addresses, which are of the same family.
pub fn datagram(number: u32, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let mut frame = ADDRESSES.to_vec();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0x00]);
            frame.extend(ipv4(source, destination));
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd]);
            frame.extend(ipv6(source, destination));
        }
        mixed => panic!("{mixed:?}"),
    }
    // Ports, length, no checksum (IPv4 permits it, and nothing here verifies it), then the number.
    frame.extend([0x13, 0x88, 0x13, 0x89, 0, 18, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.extend([0; 6]);
    frame
}

/// A [`datagram`] with a VLAN tag.
pub fn tagged(number: u32, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let mut frame = datagram(number, source, destination);
    frame.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
    frame
}

/// An ARP request, with the number in place of its sender's address.
pub fn arp(number: u32) -> Vec<u8> {
    let mut frame = ADDRESSES.to_vec();
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.resize(56, 0);
    frame.extend(number.to_be_bytes());
    frame
}

/// An IPv4 frame with a truncated header.
pub fn cut_off(number: u32) -> Vec<u8> {
    let mut frame = ADDRESSES.to_vec();
    frame.extend([0x08, 0x00, 0x4f]);
    frame.resize(20, 0);
    frame.extend(number.to_be_bytes());
    frame
}

/// The number of a frame of [`datagram`], tagged or not.
pub fn number_of(frame: &[u8]) -> u32 {
    let untagged = if frame[12..14] == [0x81, 0x00] { 4 } else { 0 };
    let at = match frame[untagged + 12..untagged + 14] {
        [0x08, 0x00] => untagged + 14 + 20 + 8,
        _ => untagged + 14 + 40 + 8,
    };
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 38, 0, 0, 0x40, 0, 64, 17, 0, 0];
    header.extend(source.octets());
    header.extend(destination.octets());
    let sum: u32 = header
        .chunks(2)
        .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

fn ipv6(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 18, 17, 64];
    header.extend(source.octets());
    header.extend(destination.octets());
    header
}
