//! A checksum is wrong if a bit that it covers changed, and is not judged where it cannot be.

use crate::common::built::{self, Extensions, Transport};
use crate::common::frames::{self, V4, V6};
use corelane_packet::Dissection;
use proptest::prelude::*;

fn is_wrong(frame: &[u8]) -> bool {
    Dissection::of(frame).is_ok_and(|dissection| dissection.has_wrong_checksum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn checksums_of_another_writer_are_right_and_with_a_bit_changed_wrong(
        shape in built::shape(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        // Its checksums do not know of the last hop.
        let extensions = Extensions { routing: false, ..shape.extensions };
        let shape = built::Shape { extensions, ..shape };
        let mut frame = shape.frame();
        prop_assert!(!is_wrong(&frame));
        let dissection = Dissection::of(&frame).unwrap();
        let covered = match shape.transport {
            Transport::Icmp => return Ok(()),
            _ if dissection.is_part() => return Ok(()),
            _ => dissection.transport_offset()..dissection.packet_end(),
        };
        let at = covered.start + at.index(covered.len());
        frame[at] ^= 1 << bit;
        let lengths = covered.start + 4..covered.start + 6;
        let zeroed = frame[covered.start + 6..covered.start + 8] == [0; 2];
        if shape.transport == Transport::Tcp || !lengths.contains(&at) && !zeroed {
            prop_assert!(is_wrong(&frame));
        }
    }
}

#[test]
fn the_header_of_ipv4_has_its_own_checksum() {
    let mut frame = V4::SUITE.frame(&frames::udp(1, 2, b"no checksum"));
    assert!(!is_wrong(&frame));
    frame[14 + 8] -= 1;
    assert!(is_wrong(&frame));
}

#[test]
fn what_cannot_be_judged_is_not_wrong() {
    let mut datagram = frames::udp(1, 2, b"data");
    datagram[6] = 0xff;
    let route = [131, 7, 4, 10, 0, 0, 9, 0];
    let rows = [
        (
            "a fragment",
            V4 {
                fragment: 0x2000,
                ..V4::SUITE
            }
            .frame(&datagram),
        ),
        (
            "a source route",
            V4 {
                options: &route,
                ..V4::SUITE
            }
            .frame(&datagram),
        ),
        (
            "a routing header",
            V6::suite(vec![frames::routing_type_2("::1")], 17).frame(&datagram),
        ),
        (
            "a home address",
            V6::suite(vec![frames::home_address("::1")], 17).frame(&datagram),
        ),
        (
            "no checksum over IPv6",
            V6::suite(vec![], 17).frame(&frames::udp(1, 2, b"data")),
        ),
        (
            "another protocol",
            V4 {
                protocol: 1,
                ..V4::SUITE
            }
            .frame(&datagram),
        ),
    ];
    for (name, frame) in rows {
        assert!(!is_wrong(&frame), "{name}");
    }
    let whole = V4::SUITE.frame(&datagram);
    assert!(is_wrong(&whole));
    assert!(!is_wrong(&whole[..whole.len() - 1]), "cut short");
}
