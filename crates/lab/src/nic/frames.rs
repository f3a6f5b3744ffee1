//! The frames that the guest is sent: flows of every class, planned so that each queue gets its share of every class.

use super::plan::NicRound;
use corelane_packet::Dissection;
use corelane_packet::verify::Rule;
use corelane_rss::Toeplitz;
use corelane_worker::received::LEAST_FRAME_BYTES;
use std::collections::BTreeMap;

/// The link address of the guest's device.
pub(super) const GUEST: [u8; 6] = [0x02, 0x63, 0x6c, 0, 0, 9];

/// That of the sender.
pub(super) const HOST: [u8; 6] = [0x02, 0x63, 0x6c, 0, 0, 8];

/// How often a flow is drawn anew before a queue is given up on: a table may name it rarely or never.
const MOST_DRAWS: usize = 4096;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Tcp,
    Udp,
    /// ICMP: no ports.
    Icmp,
    /// The first part of a UDP datagram, which has ports that are not hashed.
    FirstFragment,
    /// A later part.
    LaterFragment,
}

const CLASSES: [Class; 5] = [
    Class::Tcp,
    Class::Udp,
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
            let mut of_queue: BTreeMap<usize, usize> = BTreeMap::new();
            let (mut taken, mut draws) = (0, 0);
            while taken < flows && draws < MOST_DRAWS + 64 * flows {
                draws += 1;
                let frame = drawn(class, v6, &mut random);
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
    let input = dissection
        .as_ref()
        .and_then(|found| found.rss_input(rule.hash_types));
    input.map_or(0, |input| {
        rule.table.bucket(toeplitz.hash_input(input.as_bytes())).index()
    })
}

/// A frame between two random ends of documentation networks (RFC 5737, RFC 3849).
fn drawn(class: Class, v6: bool, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut frame = [GUEST, HOST].concat();
    frame.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let payload = transport(class, v6, random);
    if v6 {
        ipv6(&mut frame, class, &payload, random);
    } else {
        ipv4(&mut frame, class, &payload, random);
    }
    frame
}

fn protocol(class: Class, v6: bool) -> u8 {
    match (class, v6) {
        (Class::Tcp, _) => 6,
        (Class::Icmp, false) => 1,
        (Class::Icmp, true) => 58,
        _ => 17,
    }
}

/// What stands behind the IP header, long enough for the receiver.
fn transport(class: Class, v6: bool, random: &mut fastrand::Rng) -> Vec<u8> {
    let length = LEAST_FRAME_BYTES.next_multiple_of(8) as u16;
    let mut bytes = match class {
        Class::Tcp => {
            let mut header = [random.u16(1024..).to_be_bytes(), random.u16(1..).to_be_bytes()].concat();
            header.extend(random.u32(..).to_be_bytes());
            // SYN, so that no two are merged.
            header.extend([0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
            header
        }
        Class::Icmp => vec![if v6 { 128 } else { 8 }, 0, 0, 0],
        Class::LaterFragment => Vec::new(),
        Class::Udp | Class::FirstFragment => {
            let ports = [random.u16(1024..).to_be_bytes(), random.u16(1..).to_be_bytes()];
            let mut header = ports.concat();
            header.extend(length.to_be_bytes());
            header.extend([0, 0]);
            header
        }
    };
    bytes.resize(usize::from(length), 0x63);
    bytes
}

fn ipv4(frame: &mut Vec<u8>, class: Class, payload: &[u8], random: &mut fastrand::Rng) {
    let total = (20 + payload.len()) as u16;
    let fragment: u16 = match class {
        Class::FirstFragment => 0x2000,
        Class::LaterFragment => 0x2000 | 64,
        _ => 0,
    };
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend(random.u16(..).to_be_bytes());
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol(class, false), 0, 0]);
    header.extend([198, 51, 100, random.u8(1..)]);
    header.extend([192, 0, random.u8(..), random.u8(1..)]);
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
}

fn ipv6(frame: &mut Vec<u8>, class: Class, payload: &[u8], random: &mut fastrand::Rng) {
    const FRAGMENT_HEADER: u8 = 44;
    let offset: u16 = match class {
        Class::FirstFragment => 1,
        // In units of eight bytes from bit 3 on; more follow.
        Class::LaterFragment => 64 << 3 | 1,
        _ => 0,
    };
    let extension = match offset {
        0 => Vec::new(),
        offset => {
            let mut header = vec![protocol(class, true), 0];
            header.extend(offset.to_be_bytes());
            header.extend(random.u32(..).to_be_bytes());
            header
        }
    };
    let next = if extension.is_empty() {
        protocol(class, true)
    } else {
        FRAGMENT_HEADER
    };
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(((extension.len() + payload.len()) as u16).to_be_bytes());
    frame.extend([next, 64]);
    for _ in 0..2 {
        frame.extend([0x20, 0x01, 0x0d, 0xb8]);
        frame.extend(random.u64(..).to_be_bytes());
        frame.extend(random.u32(..).to_be_bytes());
    }
    frame.extend(extension);
    frame.extend(payload);
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
            assert!(frame.len() > LEAST_FRAME_BYTES);
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
