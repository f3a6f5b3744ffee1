//! The frames that the guest is sent: flows of every class, planned so that each queue gets its share of every class.

use super::plan::NicRound;
use corelane_packet::Dissection;
use corelane_packet::checksum::internet;
use corelane_packet::verify::Rule;
use corelane_rss::Toeplitz;
use std::collections::BTreeMap;

/// The link address of the guest's device.
pub(super) const GUEST: [u8; 6] = [0x02, 0x63, 0x6c, 0, 0, 9];

/// That of the sender.
pub(super) const HOST: [u8; 6] = [0x02, 0x63, 0x6c, 0, 0, 8];

/// Largest number of draws per flow before a queue is skipped: a table may contain it rarely or never.
const MOST_DRAWS: usize = 4096;

/// Bytes behind the IP header: a multiple of 8, as for every part of a datagram but the last.
const PAYLOAD_BYTES: usize = 352;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Tcp,
    Udp,
    /// The same behind IPv4 options, or behind IPv6 extension headers.
    TcpExtended,
    UdpExtended,
    /// A UDP datagram in one fragment, which IPv6 marks by a fragment header.
    Atomic,
    /// ICMP: no ports.
    Icmp,
    /// The first part of a UDP datagram, which has ports that are not hashed.
    FirstFragment,
    /// A later part.
    LaterFragment,
}

const CLASSES: [Class; 8] = [
    Class::Tcp,
    Class::Udp,
    Class::TcpExtended,
    Class::UdpExtended,
    Class::Atomic,
    Class::Icmp,
    Class::FirstFragment,
    Class::LaterFragment,
];

/// Frames of `flows` flows of every class over IPv4 and IPv6, a frame each, equally many for each queue.
pub(super) fn frames(round: &NicRound, flows: usize, seed: u64) -> Vec<Vec<u8>> {
    let rule = round.rule();
    let toeplitz = Toeplitz::new(&rule.key);
    let mut random = fastrand::Rng::with_seed(seed);
    let queues = rule.table.buckets();
    let share = flows.div_ceil(queues.max(1));
    let mut frames = Vec::new();
    for class in CLASSES {
        for v6 in [false, true] {
            if v6 && class.is_extended() && round.without_extensions {
                continue;
            }
            let mut of_queue: BTreeMap<usize, usize> = BTreeMap::new();
            let (mut taken, mut draws) = (0, 0);
            while taken < flows && draws < MOST_DRAWS + 64 * flows {
                draws += 1;
                let frame = class.drawn(v6, &mut random);
                let own = of_queue.entry(queue_of(&frame, &rule, &toeplitz)).or_default();
                if *own < share {
                    *own += 1;
                    taken += 1;
                    frames.push(frame);
                }
            }
        }
    }
    frames
}

/// The queue that a frame is meant for; 0 for one that is not hashed.
fn queue_of(frame: &[u8], rule: &Rule, toeplitz: &Toeplitz) -> usize {
    let dissection = Dissection::of(frame).ok();
    let input = dissection.and_then(|found| found.rss_input(rule.hash_types));
    let hash = input.map(|input| toeplitz.hash_input(input.as_bytes()));
    hash.map_or(0, |hash| rule.table.bucket(hash).index())
}

impl Class {
    /// A frame between two random ends of documentation networks (RFC 5737, RFC 3849).
    fn drawn(self, v6: bool, random: &mut fastrand::Rng) -> Vec<u8> {
        let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let payload = self.payload(v6, random);
        let header = match v6 {
            true => self.ipv6(payload.len(), random),
            false => self.ipv4(payload.len(), random),
        };
        [&GUEST[..], &HOST, &ethertype, &header, &payload].concat()
    }

    fn protocol(self, v6: bool) -> u8 {
        match (self, v6) {
            (Self::Tcp | Self::TcpExtended, _) => 6,
            (Self::Icmp, false) => 1,
            (Self::Icmp, true) => 58,
            _ => 17,
        }
    }

    /// Where a fragment lies in its datagram, in units of eight bytes, and whether more follow.
    fn fragment(self) -> Option<(u16, bool)> {
        match self {
            Self::Atomic => Some((0, false)),
            Self::FirstFragment => Some((0, true)),
            Self::LaterFragment => Some((64, true)),
            _ => None,
        }
    }

    fn is_extended(self) -> bool {
        matches!(self, Self::TcpExtended | Self::UdpExtended)
    }

    /// What stands behind the IP header.
    fn payload(self, v6: bool, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut ports = || [random.u16(1024..).to_be_bytes(), random.u16(1..).to_be_bytes()].concat();
        let mut bytes = match self {
            // SYN, so that no two are merged.
            Self::Tcp | Self::TcpExtended => [
                &ports()[..],
                &random.u32(..).to_be_bytes(),
                &[0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0],
            ]
            .concat(),
            Self::Icmp => vec![if v6 { 128 } else { 8 }, 0, 0, 0],
            Self::LaterFragment => Vec::new(),
            Self::Udp | Self::UdpExtended | Self::Atomic | Self::FirstFragment => {
                [&ports()[..], &(PAYLOAD_BYTES as u16).to_be_bytes(), &[0, 0]].concat()
            }
        };
        // Zeros: the program for 4-tuples runs on every frame, and takes ICMPv6 (58) for an extension header.
        bytes.resize(PAYLOAD_BYTES, 0);
        bytes
    }

    fn ipv4(self, payload: usize, random: &mut fastrand::Rng) -> Vec<u8> {
        let more = |more: bool| if more { 0x2000 } else { 0 };
        let fragment = self
            .fragment()
            .map_or(0, |(offset, follow)| more(follow) | offset);
        // Two words of no operations.
        let options: &[u8] = if self.is_extended() { &[1; 8] } else { &[] };
        let length = 20 + options.len();
        let words = [(length + payload) as u16, random.u16(..), fragment].map(u16::to_be_bytes);
        let mut header = [
            &[0x40 | (length / 4) as u8, 0][..],
            words.as_flattened(),
            &[64, self.protocol(false), 0, 0],
            &[198, 51, 100, random.u8(1..)],
            &[192, 0, random.u8(..), random.u8(1..)],
            options,
        ]
        .concat();
        let checksum = internet(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn ipv6(self, payload: usize, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut end = || {
            let (subnet, host) = (random.u64(..).to_be_bytes(), random.u32(..).to_be_bytes());
            [&[0x20, 0x01, 0x0d, 0xb8][..], &subnet, &host].concat()
        };
        let (ends, home, routed) = ([end(), end()].concat(), end(), end());
        let mut headers: Vec<(u8, Vec<u8>)> = Vec::new();
        if self.is_extended() {
            headers = extensions(&home, &routed);
        }
        if let Some((offset, more)) = self.fragment() {
            let place = (offset << 3 | u16::from(more)).to_be_bytes();
            headers.push((44, [&[0][..], &place, &random.u32(..).to_be_bytes()].concat()));
        }
        let (mut next, mut chain) = (self.protocol(true), Vec::new());
        for (kind, body) in headers.into_iter().rev() {
            chain.splice(..0, [&[next][..], &body].concat());
            next = kind;
        }
        let length = ((chain.len() + payload) as u16).to_be_bytes();
        // The flow label is drawn as well: it is not hashed.
        let first = (0x6000_0000 | random.u32(..1 << 20)).to_be_bytes();
        [&first[..], &length, &[next, 64], &ends, &chain].concat()
    }
}

/// Extension headers by type, each without its first byte, the type of the next one (RFC 8200, section 4): hop-by-hop
/// options, destination options with a home address, and a routing header of type 2 with another (RFC 6275, sections 6.3
/// and 6.4). Devices hash these addresses only where hash types ending in `_EX` are enabled.
fn extensions(home: &[u8], routed: &[u8]) -> Vec<(u8, Vec<u8>)> {
    vec![
        (0, vec![0, 1, 4, 0, 0, 0, 0]),
        (60, [&[2, 1, 2, 0, 0, 0xc9, 16][..], home].concat()),
        (43, [&[2, 2, 1, 0, 0, 0, 0][..], routed].concat()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::NicPlan;
    use corelane_packet::HashTypes;

    #[test]
    fn every_class_of_every_family_has_its_flows_over_every_queue() {
        let plan = NicPlan::new(40, 7).unwrap();
        let round = &plan.rounds[0];
        let frames = frames(round, 40, 7);
        assert_eq!(frames.len(), 40 * 2 * CLASSES.len());
        let toeplitz = Toeplitz::new(&round.key);
        let mut by_type: BTreeMap<String, BTreeMap<usize, usize>> = BTreeMap::new();
        for frame in &frames {
            assert!(frame.len() > PAYLOAD_BYTES);
            let input = Dissection::of(frame).unwrap();
            let input = input.rss_input(HashTypes::FOUR_TUPLE).unwrap();
            let queues = by_type.entry(input.hash_type().to_string()).or_default();
            *queues
                .entry(queue_of(frame, &round.rule(), &toeplitz))
                .or_default() += 1;
        }
        let types: Vec<&str> = by_type.keys().map(String::as_str).collect();
        assert_eq!(
            types,
            ["IPV4", "IPV6", "TCP_IPV4", "TCP_IPV6", "UDP_IPV4", "UDP_IPV6"]
        );
        for (name, queues) in &by_type {
            let counts: Vec<usize> = queues.values().copied().collect();
            assert!(
                counts.len() == 4 && counts.iter().all(|count| *count == counts[0]),
                "{name}: {queues:?}"
            );
        }
    }
}
