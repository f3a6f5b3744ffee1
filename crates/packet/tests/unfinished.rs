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
