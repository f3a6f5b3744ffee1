//! Datagrams of flows, cut into fragments, and what a receiver finds of them.

use corelane_packet::checksum::internet;
use corelane_packet::{Dissection, Fragment};
use fastrand::Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// A UDP datagram: its flow and number are the first bytes of its payload.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub flow: u32,
    pub number: u32,
    /// The whole frame.
    pub frame: Vec<u8>,
}

impl Datagram {
    /// A datagram with a payload of some bytes that follow from flow and number. Odd flows are of IPv6.
    pub fn new(flow: u32, number: u32, payload: usize) -> Datagram {
        let mut draws = Rng::with_seed(u64::from(flow) << 32 | u64::from(number));
        let mut bytes: Vec<u8> = [flow.to_be_bytes(), number.to_be_bytes()].concat();
        bytes.resize_with(payload.max(8), || draws.u8(..));
        let (source, destination): (IpAddr, IpAddr) = match flow % 2 {
            0 => (
                Ipv4Addr::from(0x0a00_0000 + flow % 16).into(),
                Ipv4Addr::new(192, 0, 2, 1).into(),
            ),
            _ => (
                Ipv6Addr::from((0x2001_0db8 << 96) + u128::from(flow % 16)).into(),
                Ipv6Addr::from((0x2001_0db8 << 96) + (1 << 64)).into(),
            ),
        };
        let mut udp = [(1024 + flow as u16).to_be_bytes(), 53_u16.to_be_bytes()].concat();
        udp.extend((8 + bytes.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(bytes);
        let mut frame = vec![0x02; 12];
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([0x08, 0x00, 0x45, 0]);
                frame.extend((20 + udp.len() as u16).to_be_bytes());
                // Flows with the same addresses have other identifications.
                frame.extend(((flow << 10 | number) as u16).to_be_bytes());
                frame.extend([0, 0, 64, 17, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                set_ipv4_checksum(&mut frame);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((udp.len() as u16).to_be_bytes());
                frame.extend([17, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            mixed => panic!("{mixed:?}"),
        }
        let checksum = transport(source, destination, 17, &udp);
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(udp);
        Datagram { flow, number, frame }
    }

    /// Fragments of at most `mtu` bytes from the IP header on; the datagram itself if it fits.
    pub fn fragments(&self, mtu: usize) -> Vec<Vec<u8>> {
        if self.frame.len() - ETHERNET <= mtu {
            return vec![self.frame.clone()];
        }
        if self.flow.is_multiple_of(2) {
            return cut(&self.frame, mtu);
        }
        let data = &self.frame[ETHERNET + IPV6..];
        let most = (mtu - IPV6 - 8) / 8 * 8;
        let parts = data.chunks(most).enumerate();
        parts
            .map(|(part, bytes)| {
                let offset = part * most;
                self.part_of_ipv6(offset, offset + bytes.len() < data.len(), bytes)
            })
            .collect()
    }

    fn part_of_ipv6(&self, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
        let mut frame = self.frame[..ETHERNET + IPV6].to_vec();
        frame[18..20].copy_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
        frame[20] = 44;
        frame.extend([17, 0]);
        frame.extend((offset as u16 | u16::from(more)).to_be_bytes());
        frame.extend((self.flow << 16 | self.number & 0xffff).to_be_bytes());
        frame.extend(bytes);
        frame
    }
}

/// Fragments of an IPv4 frame, of at most `mtu` bytes from the IP header on.
pub fn cut(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    if frame.len() - ETHERNET <= mtu {
        return vec![frame.to_vec()];
    }
    let (head, data) = frame.split_at(ETHERNET + IPV4);
    let most = (mtu - IPV4) / 8 * 8;
    let parts = data.chunks(most).enumerate();
    parts
        .map(|(part, bytes)| {
            let offset = part * most;
            let more = offset + bytes.len() < data.len();
            let mut fragment = head.to_vec();
            fragment[16..18].copy_from_slice(&((IPV4 + bytes.len()) as u16).to_be_bytes());
            let place = (offset / 8) as u16 | u16::from(more) << 13;
            fragment[20..22].copy_from_slice(&place.to_be_bytes());
            set_ipv4_checksum(&mut fragment);
            fragment.extend(bytes);
            fragment
        })
        .collect()
}

/// The packet of a frame in a tunnel of IP in IP between two addresses.
pub fn tunnelled(frame: &[u8], identification: u16) -> Vec<u8> {
    let (ethernet, packet) = frame.split_at(ETHERNET);
    let protocol = if packet[0] >> 4 == 6 { 41 } else { 4 };
    let mut outer = [&ethernet[..12], &[0x08, 0x00, 0x45, 0]].concat();
    outer.extend(((IPV4 + packet.len()) as u16).to_be_bytes());
    outer.extend(identification.to_be_bytes());
    outer.extend([0, 0, 64, protocol, 0, 0]);
    outer.extend([198, 51, 100, 1, 198, 51, 100, 2]);
    set_ipv4_checksum(&mut outer);
    outer.extend(packet);
    outer
}

fn set_ipv4_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// Flow and number of a frame that is a whole datagram with a right checksum.
pub fn identified(frame: &[u8]) -> Option<(u32, u32)> {
    let packet = Dissection::of(frame).ok()?;
    if packet.fragment() != Fragment::Whole {
        return None;
    }
    let udp = frame.get(packet.transport_offset()..packet.packet_end())?;
    let (source, destination) = (packet.source(), packet.destination());
    let length = usize::from(u16::from_be_bytes(udp.get(4..6)?.try_into().ok()?));
    if length != udp.len() || transport(source, destination, 17, udp) != 0 {
        return None;
    }
    let number = |at: usize| Some(u32::from_be_bytes(udp.get(at..at + 4)?.try_into().ok()?));
    Some((number(8)?, number(12)?))
}

/// The checksum of a transport header and its data, with the pseudo-header (RFC 768; RFC 8200, section 8.1).
fn transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let length = (segment.len() as u32).to_be_bytes();
    let pseudo = [
        octets(source),
        octets(destination),
        length.into(),
        vec![0, 0, 0, protocol],
    ];
    internet(&[pseudo.concat(), segment.to_vec()].concat())
}
