//! Frames of merged TCP segments leave as what they were merged of.

use super::worlds::{self, World};
use corelane_link::{AnyLink, Link, Sent};
use corelane_packet::{Dissection, checksum};
use corelane_tests::{undisturbed, until};
use std::process::Command;

/// Bytes of payload of a segment, and of all of them: the last one is shorter.
const SEGMENT: usize = 1400;
const PAYLOAD: usize = 28 * SEGMENT + 7;
/// Bytes of the header of TCP, with an option of 12 bytes.
const TCP: usize = 32;
const SEQUENCE: u32 = 0xffff_f000;
const ID: u16 = 0xfffe;
const CWR_ACK_PSH: u8 = 0x98;

/// Frames with this payload: both families, with and without a tag.
fn frames(payload: &[u8]) -> Vec<Vec<u8>> {
    let mut tcp = [&[0x9c, 0x40, 0, 80], &SEQUENCE.to_be_bytes()[..], &[0, 0, 0, 9]].concat();
    tcp.extend([0x80, CWR_ACK_PSH, 1, 0, 0, 0, 0, 0]);
    tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    tcp.extend(payload);
    let [high, low] = (tcp.len() as u16).to_be_bytes();
    let six = [
        &[0x86, 0xdd, 0x60, 0, 0, 0, high, low, 6, 64][..],
        &[0xfd; 16],
        &[0xfc; 16],
    ]
    .concat();
    let [high, low] = (20 + tcp.len() as u16).to_be_bytes();
    let mut four = vec![0x08, 0x00, 0x45, 0, high, low];
    four.extend(ID.to_be_bytes());
    four.extend([0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    let sum = checksum::internet(&four[2..]);
    four[12..14].copy_from_slice(&sum.to_be_bytes());
    let headers = [four.clone(), six.clone()].into_iter();
    let tagged = [four, six].map(|header| [&[0x81, 0, 0, 5], &header[..]].concat());
    headers
        .chain(tagged)
        .map(|header| [&[0x02; 12], &header[..], &tcp].concat())
        .collect()
}

fn payload() -> Vec<u8> {
    (0..PAYLOAD).map(|index| (index / 3) as u8).collect()
}

/// The frames that the device or the kernel makes of such a frame (RFC 9293: the sequence number counts bytes; RFC 3168,
/// section 6.1.2: CWR once).
fn segments(merged: &[u8]) -> Vec<Vec<u8>> {
    let packet = Dissection::of(merged).unwrap();
    let (ip, tcp) = (packet.network_offset(), packet.transport_offset());
    let parts = merged[tcp + TCP..].chunks(SEGMENT).zip(0_u16..);
    parts
        .map(|(part, number)| {
            let mut frame = [&merged[..tcp + TCP], part].concat();
            let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
            put(
                tcp + 4,
                &SEQUENCE
                    .wrapping_add(u32::from(number) * SEGMENT as u32)
                    .to_be_bytes(),
            );
            let (is_first, is_last) = (number == 0, part.len() < SEGMENT);
            let flags = 0x10 | if is_first { 0x80 } else { 0 } | if is_last { 0x08 } else { 0 };
            put(tcp + 13, &[flags]);
            put(tcp + 16, &[0; 2]);
            let length = (TCP + part.len()) as u16;
            if merged[ip] >> 4 == 6 {
                put(ip + 4, &length.to_be_bytes());
            } else {
                put(ip + 2, &(20 + length).to_be_bytes());
                put(ip + 4, &ID.wrapping_add(number).to_be_bytes());
                put(ip + 10, &[0; 2]);
                let sum = checksum::internet(&frame[ip..tcp]);
                frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            }
            with_checksum(frame)
        })
        .collect()
}

fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    let packet = Dissection::of(&frame).unwrap();
    let start = packet.transport_offset();
    let sum = checksum::finished(packet.pseudo_header_sum() + checksum::sum(&frame[start..]));
    frame[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Sends merged frames with an ordinary one between them, and returns what arrives: as many TCP frames as are `wanted`, and
/// the ordinary ones.
fn exchanged(world: &mut World, merged: &[Vec<u8>], wanted: usize) -> Vec<Vec<u8>> {
    let one = Sent {
        taken: 1,
        ..Sent::default()
    };
    let small = ordinary();
    let left: &mut AnyLink = &mut world.left[0];
    for frame in merged {
        assert_eq!(left.send_merged(frame, SEGMENT as u16).unwrap(), one);
        assert_eq!(left.send([&small[..]].into_iter()).unwrap(), one);
    }
    let bytes = merged
        .iter()
        .map(|frame| frame.len() + small.len())
        .sum::<usize>() as u64;
    let tally = left.tally();
    assert_eq!(
        (tally.sent, tally.sent_bytes, tally.send_failed),
        (2 * merged.len() as u64, bytes, 0)
    );
    let mut came = Vec::new();
    until("all frames arrive", || {
        let burst = world.right[0].receive(64).unwrap();
        came.extend(
            burst
                .iter()
                .filter(|frame| frame.starts_with(&[2; 12]))
                .map(<[u8]>::to_vec),
        );
        came.len() >= wanted + merged.len()
    });
    came
}

/// A frame that is not merged, which must not overtake.
fn ordinary() -> Vec<u8> {
    [&[2; 12], &[0x88, 0xb5][..], &[7; 46]].concat()
}

/// A merged frame as it may be sent: with any checksum of TCP.
fn merged() -> Vec<Vec<u8>> {
    frames(&payload())
}

#[test]
fn a_merged_frame_leaves_a_packet_socket_as_its_segments() {
    for (spec, offload) in [
        ("packet:server0", "off"),
        ("packet:server0,duplicate=0,faults=sent", "on"),
    ] {
        undisturbed(|| {
            let mut world = match worlds::veth_merged(spec, "packet:client0,stride=4096") {
                Ok(world) => world,
                Err(reason) => return eprintln!("skipped: {reason}"),
            };
            // The kernel cuts: a veth with the offload hands merged frames to its other end.
            let bed = world.bed.as_ref().expect("a bed");
            let is_cut = bed.server.run(move || {
                let arguments = ["-K", "server0", "tso", "off", "tx", offload];
                match Command::new("ethtool").args(arguments).output() {
                    Err(error) => {
                        eprintln!("skipped: ethtool: {error}");
                        false
                    }
                    Ok(output) => {
                        assert!(output.status.success(), "{output:?}");
                        true
                    }
                }
            });
            if !is_cut {
                return;
            }
            let merged = merged();
            let expected: Vec<Vec<u8>> = merged
                .iter()
                .flat_map(|frame| segments(frame).into_iter().chain([ordinary()]))
                .collect();
            let came = exchanged(&mut world, &merged, expected.len() - merged.len());
            for (number, (came, expected)) in came.iter().zip(&expected).enumerate() {
                assert_eq!(came, expected, "{spec}: frame {number}");
            }
            assert_eq!(came.len(), expected.len());
        });
    }
}

#[test]
fn a_merged_frame_reaches_the_stack_behind_a_tap_whole() {
    undisturbed(|| {
        let mut world = match worlds::tap_merged("tap:suite0") {
            Ok(world) => world,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        let merged = merged();
        let came = exchanged(&mut world, &merged, merged.len());
        let expected: Vec<Vec<u8>> = merged
            .into_iter()
            .flat_map(|frame| [with_checksum(frame), ordinary()])
            .collect();
        assert_eq!(came, expected);
    });
}

#[test]
fn a_link_that_was_not_opened_for_merged_frames_refuses_them_as_too_long() {
    undisturbed(|| {
        let mut world = match worlds::veth("packet:server0", "packet:client0", None) {
            Ok(world) => world,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        let sent = world.left[0].send_merged(&merged()[0], SEGMENT as u16).unwrap();
        assert_eq!((sent.taken, sent.oversized, sent.full), (0, 1, 0));
    });
}
