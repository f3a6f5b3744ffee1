//! An edited frame is byte for byte the same as one built from scratch, including every checksum.

use crate::common::built::{self, Ends, Shape, Transport};
use crate::common::frames::{self, V4, V6};
use corelane_packet::ethernet::{self, MacAddress};
use corelane_packet::{Dissection, EditError, Editor, checksum};
use proptest::prelude::*;
use std::net::IpAddr;

/// A shape that can be edited, and its new ends.
fn editable() -> impl Strategy<Value = (Shape, Ends)> {
    let shape = built::shape().prop_map(|shape| Shape {
        authenticated: false,
        fragment: shape
            .fragment
            .map(|(_, _, identification)| (0, true, identification)),
        ..shape
    });
    shape.prop_flat_map(|shape| {
        let ends = built::ends(shape.ends.source.is_ipv6());
        (Just(shape), ends)
    })
}

fn edit(frame: &mut [u8], to: &Ends, ports: bool) -> Result<(), EditError> {
    let mut editor = Editor::of(frame).unwrap();
    editor.set_source(to.source)?;
    editor.set_destination(to.destination)?;
    if ports {
        editor.set_source_port(to.ports[0])?;
        editor.set_destination_port(to.ports[1])?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn an_edited_frame_is_the_frame_built_so((shape, mut to) in editable()) {
        let ports = shape.transport != Transport::Icmp;
        if !ports {
            to.ports = shape.ends.ports;
        }
        let mut edited = shape.frame();
        prop_assert_eq!(edit(&mut edited, &to, ports), Ok(()));
        prop_assert_eq!(edited, Shape { ends: to, ..shape }.frame());
    }

    #[test]
    fn a_wrong_checksum_stays_as_wrong_as_it_was((shape, to) in editable(), damage in 1_u8..=255) {
        let shape = Shape { transport: Transport::Tcp, payload: vec![1, 2, 3], ..shape };
        let mut damaged = shape.frame();
        let payload = damaged.len() - 1;
        damaged[payload] ^= damage;
        prop_assert_eq!(edit(&mut damaged, &to, true), Ok(()));
        damaged[payload] ^= damage;
        prop_assert_eq!(damaged, Shape { ends: to, ..shape }.frame());
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_checksum_that_was_not_computed_stays_so() {
    let mut frame = V4::SUITE.frame(&frames::udp(1, 2, b"data"));
    let mut editor = Editor::of(&mut frame).unwrap();
    editor.set_source(address("10.0.0.1")).unwrap();
    editor.set_source_port(9).unwrap();
    assert_eq!(frame[40..42], [0, 0]);
}

#[test]
fn a_computed_checksum_of_zero_is_written_as_ones() {
    let mut frame = V4::SUITE.frame(&frames::udp(1, 2, b"data"));
    // With this checksum the change from port 1 to port 0 makes the sum zero.
    frame[40..42].copy_from_slice(&[0xff, 0xfe]);
    Editor::of(&mut frame).unwrap().set_source_port(0).unwrap();
    assert_eq!(frame[40..42], [0xff, 0xff]);
}

#[test]
fn later_fragments_and_what_has_no_ports_take_new_addresses_only() {
    let later = V4 {
        fragment: 0x0001,
        ..V4::SUITE
    };
    let mut frame = later.frame(&frames::udp(1, 2, b"data"));
    let payload = frame[34..].to_vec();
    let mut editor = Editor::of(&mut frame).unwrap();
    editor.set_destination(address("10.0.0.2")).unwrap();
    assert!(matches!(
        editor.set_source_port(5),
        Err(EditError::NoPorts { .. })
    ));
    assert_eq!(frame[34..], payload, "the checksum is in the first fragment");
    assert_eq!(
        checksum::internet(&frame[14..34]),
        0,
        "the header's checksum is valid"
    );
}

/// Fills in the CRC of an SCTP packet, computed bit by bit (RFC 9260, appendix A).
fn with_crc32c(mut packet: Vec<u8>) -> Vec<u8> {
    let mut rest = u32::MAX;
    for byte in &packet {
        rest ^= u32::from(*byte);
        for _ in 0..8 {
            rest = if rest & 1 == 1 {
                rest >> 1 ^ 0x82f6_3b78
            } else {
                rest >> 1
            };
        }
    }
    packet[8..12].copy_from_slice(&(!rest).to_le_bytes());
    packet
}

#[test]
fn the_crc_of_sctp_follows_its_ports_and_knows_no_addresses() {
    let sctp = V4 {
        protocol: 132,
        ..V4::SUITE
    };
    let moved = V4 {
        source: "10.0.0.1".parse().unwrap(),
        ..sctp
    };
    let mut frame = sctp.frame(&with_crc32c(frames::sctp(2794, 1766)));
    let mut editor = Editor::of(&mut frame).unwrap();
    editor.set_source(address("10.0.0.1")).unwrap();
    editor.set_source_port(5000).unwrap();
    editor.set_destination_port(6000).unwrap();
    assert_eq!(frame, moved.frame(&with_crc32c(frames::sctp(5000, 6000))));
    let first = V4 {
        fragment: 0x2000,
        ..sctp
    };
    let mut fragment = first.frame(&frames::sctp(1, 2));
    let refused = Editor::of(&mut fragment).unwrap().set_source_port(5);
    assert_eq!(refused, Err(EditError::Fragmented));
}

#[test]
fn addresses_that_the_checksum_takes_from_elsewhere_leave_it_alone() {
    let extensions = vec![
        frames::routing_type_2("2001:db8::2"),
        frames::home_address("2001:db8::1"),
    ];
    let mut frame = V6::suite(extensions, 17).frame(&frames::udp(1, 2, b"data"));
    let udp = frame.len() - 12;
    frame[udp + 6..udp + 8].copy_from_slice(&[0x12, 0x34]);
    let mut editor = Editor::of(&mut frame).unwrap();
    editor.set_source(address("2001:db8::5")).unwrap();
    editor.set_destination(address("2001:db8::6")).unwrap();
    assert_eq!(frame[udp + 6..udp + 8], [0x12, 0x34]);
    let routed = V4 {
        options: &[131, 7, 4, 10, 0, 0, 9, 0],
        ..V4::SUITE
    };
    let mut frame = routed.frame(&frames::udp(1, 2, b"data"));
    frame[48..50].copy_from_slice(&[0x12, 0x34]);
    Editor::of(&mut frame)
        .unwrap()
        .set_destination(address("10.0.0.2"))
        .unwrap();
    assert_eq!(frame[48..50], [0x12, 0x34]);
}

#[test]
fn edits_that_would_break_the_packet_change_nothing() {
    let authenticated = V6::suite(vec![frames::authentication()], 17).frame(&frames::udp(1, 2, b"data"));
    let whole = V4 {
        protocol: 6,
        ..V4::SUITE
    }
    .frame(&frames::tcp(1, 2, 3, b"data"));
    let (v4, v6) = (address("10.0.0.1"), address("2001:db8::1"));
    let extended = V6::suite(vec![frames::hop_by_hop()], 17).frame(&frames::udp(1, 2, b"data"));
    let rows = [
        (extended[..14 + 40 + 4].to_vec(), v6, EditError::Truncated),
        (authenticated, v6, EditError::Authenticated),
        (whole[..14 + 20 + 16].to_vec(), v4, EditError::Truncated),
        (whole, v6, EditError::Family { address: v6 }),
    ];
    for (frame, address, expected) in rows {
        let mut edited = frame.clone();
        assert_eq!(
            Editor::of(&mut edited).unwrap().set_source(address),
            Err(expected)
        );
        assert_eq!(edited, frame);
    }
}

#[test]
fn ethernet_addresses_are_set_without_a_look_at_the_rest() {
    let mut frame = V4::SUITE.frame(&frames::udp(1, 2, b"data"));
    let behind = frame[12..].to_vec();
    let mut editor = Editor::of(&mut frame).unwrap();
    editor.set_ethernet_source(MacAddress([1; 6]));
    editor.set_ethernet_destination(MacAddress([3; 6]));
    assert_eq!(ethernet::source(&frame), Some(MacAddress([1; 6])));
    assert_eq!(ethernet::destination(&frame), Some(MacAddress([3; 6])));
    assert_eq!(frame[12..], behind);
}

#[test]
fn a_traffic_class_is_set_and_the_rest_kept() {
    for mut frame in [
        V4::SUITE.frame(&frames::udp(1, 2, b"x")),
        V6::suite(vec![], 17).frame(&frames::udp(1, 2, b"x")),
    ] {
        // The flow label of IPv6 stays.
        let is_v6 = frame[14] >> 4 == 6;
        if is_v6 {
            frame[15..18].copy_from_slice(&[0x0a, 0xbc, 0xde]);
        }
        let before = frame.clone();
        let mut editor = Editor::of(&mut frame).unwrap();
        assert_eq!(editor.dissection().traffic_class(), 0);
        assert_eq!(editor.dissection().time_to_live(), 64);
        editor.set_traffic_class(0xb9);
        assert_eq!(editor.dissection().traffic_class(), 0xb9);
        assert!(is_v6 || checksum::internet(&frame[14..34]) == 0);
        let layout = Dissection::of(&frame).unwrap().layout();
        Editor::again(&mut frame, layout).set_traffic_class(0);
        assert_eq!(frame, before);
    }
}
