//! A packet inside a tunnel has the same hash as outside.

use crate::common::frames::{self, V4, V6};
use corelane_packet::{Dissection, HashTypes, tunnel};
use corelane_rss::{Key, Toeplitz};

/// UDP hashes of the verification suite's first rows (Microsoft, "Verifying the RSS Hash Calculation").
const V4_FOUR: u32 = 0x51cc_c178;
const V6_FOUR: u32 = 0x4020_7d3d;

fn datagram() -> Vec<u8> {
    frames::udp(2794, 1766, b"payload")
}

fn packet_v4() -> Vec<u8> {
    V4::SUITE.packet(&datagram())
}

fn packet_v6() -> Vec<u8> {
    V6::suite(vec![], 17).packet(&datagram())
}

fn frame_v4() -> Vec<u8> {
    V4::SUITE.frame(&datagram())
}

/// A frame between the ends of a tunnel.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = V4 {
        source: "10.0.0.1".parse().unwrap(),
        destination: "10.0.0.2".parse().unwrap(),
        protocol,
        ..V4::SUITE
    };
    header.frame(payload)
}

/// A GRE header with `optional` bytes of checksum, key and sequence number.
fn gre(flags: u8, ether_type: u16, optional: usize, inner: &[u8]) -> Vec<u8> {
    let header = [&[flags, 0], &ether_type.to_be_bytes()[..], &vec![0xee; optional]].concat();
    outer(47, &[&header, inner].concat())
}

fn vxlan(port: u16) -> Vec<u8> {
    let payload = [&[8, 0, 0, 0, 0, 0, 7, 0], &frame_v4()[..]].concat();
    outer(17, &frames::udp(40000, port, &payload))
}

/// A GENEVE header with one word of options.
fn geneve(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let header = [
        &[1, 0],
        &ether_type.to_be_bytes()[..],
        &[0, 0, 7, 0, 0xee, 0xee, 0xee, 0xee],
    ]
    .concat();
    outer(17, &frames::udp(40000, 6081, &[&header, inner].concat()))
}

#[test]
fn what_is_inside_a_tunnel_hashes_as_it_would_outside() {
    let rows = [
        ("IP in IP", V4_FOUR, outer(4, &packet_v4())),
        ("IP in IP", V6_FOUR, outer(41, &packet_v6())),
        ("GRE", V4_FOUR, gre(0, 0x0800, 0, &packet_v4())),
        ("GRE", V6_FOUR, gre(0xb0, 0x86dd, 12, &packet_v6())),
        ("GRE", V4_FOUR, gre(0x20, 0x6558, 4, &frame_v4())),
        ("VXLAN", V4_FOUR, vxlan(4789)),
        ("VXLAN", V4_FOUR, vxlan(8472)),
        ("GENEVE", V6_FOUR, geneve(0x86dd, &packet_v6())),
        ("GENEVE", V4_FOUR, geneve(0x6558, &frame_v4())),
    ];
    for (kind, expected, frame) in rows {
        let outer = Dissection::of(&frame).unwrap();
        let inner = tunnel::inner(&outer).unwrap_or_else(|| panic!("nothing inside {kind}"));
        let input = inner.rss_input(HashTypes::FOUR_TUPLE).unwrap();
        assert_eq!(
            input.hash(&Toeplitz::new(&Key::VERIFICATION)).value,
            expected,
            "{kind}"
        );
    }
}

#[test]
fn nothing_is_inside_plain_packets_fragments_and_headers_of_other_versions() {
    let fragment = V4 {
        protocol: 4,
        fragment: 0x2000,
        ..V4::SUITE
    };
    let rows = [
        ("plain", frame_v4()),
        ("fragment", fragment.frame(&packet_v4())),
        ("GRE version 1", {
            let mut frame = gre(0, 0x0800, 0, &packet_v4());
            frame[14 + 20 + 1] = 1;
            frame
        }),
        ("GENEVE of another protocol", geneve(0x0806, &[0; 28])),
        ("cut", outer(4, &packet_v4()[..19])),
    ];
    for (name, frame) in rows {
        assert_eq!(tunnel::inner(&Dissection::of(&frame).unwrap()), None, "{name}");
    }
}
