//! Checksums that the sending host left unfinished are finished, and nothing else is changed.

use corelane_packet::checksum::{finished, sum};
use corelane_packet::finish_checksum as finish;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A frame with this header after the Ethernet addresses, whose last part is `transport`, and the offset of the
/// transport header.
fn frame(header: &[u8], transport: &[u8]) -> (Vec<u8>, usize) {
    let mut frame = [&[2; 12], header, transport].concat();
    let start = frame.len() - transport.len();
    frame.resize(frame.len().max(60), 0);
    (frame, start)
}

fn ipv4(protocol: u8, length: usize, fragment: u8) -> Vec<u8> {
    let mut header = vec![
        8,
        0,
        0x45,
        0,
        0,
        20 + length as u8,
        0,
        0,
        fragment,
        0,
        64,
        protocol,
        0,
        0,
    ];
    header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    header
}

fn ipv6(next: u8, length: usize, between: &[u8]) -> Vec<u8> {
    let mut header = vec![
        0x86,
        0xdd,
        0x60,
        0,
        0,
        0,
        0,
        (length + between.len()) as u8,
        next,
        64,
    ];
    header.extend([0xfd; 32]);
    header.extend(between);
    header
}

/// A transport header of zeros, with the sum of the pseudo-header in the field, and five bytes of data.
fn transport(protocol: u8, addresses: &[u8]) -> Vec<u8> {
    let (length, field) = if protocol == TCP { (20, 16) } else { (8, 6) };
    let mut transport = vec![0; length];
    transport.extend(*b"bytes");
    let pseudo_header = sum(addresses) + u64::from(protocol) + transport.len() as u64;
    transport[field..field + 2].copy_from_slice(&(!finished(pseudo_header)).to_be_bytes());
    transport
}

/// Whether the receiver accepts the checksum.
fn is_right(addresses: &[u8], protocol: u8, transport: &[u8]) -> bool {
    finished(sum(addresses) + u64::from(protocol) + transport.len() as u64 + sum(transport)) == 0
}

#[test]
fn an_unfinished_checksum_is_finished_and_a_finished_one_stays() {
    let (four, six) = ([10, 0, 0, 1, 10, 0, 0, 2], [0xfd; 32]);
    for protocol in [TCP, UDP] {
        let (of_four, of_six) = (transport(protocol, &four), transport(protocol, &six));
        let options = [protocol, 0, 1, 4, 0, 0, 0, 0];
        let length = of_four.len();
        let tagged = [&[0x81, 0, 0, 5], &ipv4(protocol, length, 0)[..]].concat();
        let cases = [
            (ipv4(protocol, length, 0), &four[..], &of_four),
            (tagged, &four[..], &of_four),
            (ipv6(protocol, length, &[]), &six[..], &of_six),
            (ipv6(60, length, &options), &six[..], &of_six),
        ];
        for (header, addresses, transport) in cases {
            let (mut frame, start) = frame(&header, transport);
            assert!(!is_right(addresses, protocol, &frame[start..start + length]));
            finish(&mut frame);
            assert!(is_right(addresses, protocol, &frame[start..start + length]));
            let finished = frame.clone();
            finish(&mut frame);
            assert_eq!(frame, finished);
        }
    }
}

/// An untagged frame with an IPv4 packet of this protocol and payload.
fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &ipv4(protocol, payload.len(), 0)[..], payload].concat()
}

/// A UDP header without checksum before `payload`.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let header = [40_000, port, 8 + payload.len() as u16, 0];
    [&header.map(u16::to_be_bytes).concat(), payload].concat()
}

#[test]
fn an_unfinished_checksum_within_tunnels_is_finished() {
    let four = [10, 0, 0, 1, 10, 0, 0, 2];
    let inner = packet(TCP, &transport(TCP, &four));
    let vxlan = |frame: &[u8]| udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], frame].concat());
    let gre = [&[0, 0, 8, 0], &inner[14..]].concat();
    let label = [&[2; 12][..], &[0x88, 0x47, 0, 1, 1, 64], &inner[14..]].concat();
    let wrapped = [
        packet(4, &inner[14..]),
        packet(47, &gre),
        packet(UDP, &vxlan(&inner)),
        packet(UDP, &vxlan(&packet(47, &gre))),
        label,
    ];
    for mut frame in wrapped {
        let at = frame.len() - transport(TCP, &four).len();
        let before = frame.clone();
        finish(&mut frame);
        assert!(is_right(&four, TCP, &frame[at..]));
        let checksum = at + 16..at + 18;
        frame[checksum.clone()].copy_from_slice(&before[checksum]);
        assert_eq!(frame, before, "nothing else is changed");
    }
}

#[test]
fn a_checksum_of_sctp_that_is_zero_is_computed() {
    let mut sctp = [&[0x0a, 0xea, 0x06, 0xe6, 0, 0, 0, 7, 0, 0, 0, 0][..], b"chunks"].concat();
    let mut frame = packet(132, &sctp);
    finish(&mut frame);
    // By the definition, a bit a step (RFC 9260, appendix A).
    let mut crc = u32::MAX;
    for byte in &sctp {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    sctp[8..12].copy_from_slice(&(!crc).to_le_bytes());
    assert_eq!(frame, packet(132, &sctp));
    finish(&mut frame);
    assert_eq!(frame, packet(132, &sctp), "a computed one stays");
    finish(&mut packet(132, &[0; 11]));
}

#[test]
fn a_checksum_of_gre_that_is_zero_is_computed() {
    let gre = |flags: u8| [&[flags, 0, 8, 0, 0, 0, 0, 0], &packet(1, b"inner")[14..]].concat();
    let mut frame = packet(47, &gre(0x80));
    finish(&mut frame);
    let covered = &frame[34..34 + 8 + 20 + 5];
    assert_ne!(covered[4..6], [0, 0]);
    assert_eq!(finished(sum(covered)), 0);
    let before = frame.clone();
    finish(&mut frame);
    assert_eq!(frame, before, "a computed one stays");
    let mut without = packet(47, &gre(0x20));
    finish(&mut without);
    assert_eq!(without, packet(47, &gre(0x20)));
    finish(&mut packet(47, &[0x80, 0, 8, 0, 0]));
}

#[test]
fn any_other_frame_stays_as_it_is() {
    let transport = transport(UDP, &[10, 0, 0, 1, 10, 0, 0, 2]);
    let length = transport.len();
    let wrong = [&transport[..6], &[0x12, 0x34], &transport[8..]].concat();
    let cases = [
        frame(&ipv4(UDP, length, 0x20), &transport),
        frame(&ipv4(1, length, 0), &transport),
        frame(&ipv4(UDP, length, 0), &wrong),
        frame(&ipv4(UDP, 200, 0), &transport),
        frame(&[8, 6], &transport),
    ];
    for (mut frame, _) in cases {
        let before = frame.clone();
        finish(&mut frame);
        assert_eq!(frame, before);
    }
    let (whole, _) = frame(&ipv6(60, length, &[UDP, 0, 1, 4, 0, 0, 0, 0]), &transport);
    for length in 0..whole.len() {
        finish(&mut whole[..length].to_vec());
    }
}
