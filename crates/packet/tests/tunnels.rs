//! A packet inside a tunnel has the same hash as outside.

use crate::common::frames::{self, V4, V6};
use corelane_packet::tunnel::{self, Content, Kind, Tunnel, Unsupported};
use corelane_packet::{Dissection, HashTypes};
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
    in_udp(port, &payload)
}

fn in_udp(port: u16, payload: &[u8]) -> Vec<u8> {
    outer(17, &frames::udp(40000, port, payload))
}

/// A stack of these labels (20 bits), the last with the bottom flag, before `inner`.
fn labels(labels: &[u32], inner: &[u8]) -> Vec<u8> {
    let (last, before) = labels.split_last().unwrap();
    let before = before.iter().map(|label| label << 12 | 64);
    let entries = before.chain([last << 12 | 1 << 8 | 64]);
    let mut stack: Vec<u8> = entries.flat_map(u32::to_be_bytes).collect();
    stack.extend(inner);
    stack
}

/// A GENEVE header with one word of options.
fn geneve(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    geneve_with(1, 0, ether_type, inner)
}

fn geneve_with(first: u8, flags: u8, ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let header = [
        &[first, flags],
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
        (
            "GRE",
            V6_FOUR,
            gre(0, 0x8847, 0, &labels(&[16, 17], &packet_v6())),
        ),
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

/// Kind, first and one past the last byte of the header, what follows.
fn found(frame: &[u8]) -> Option<Result<(Kind, usize, usize, Content), Unsupported>> {
    let tunnel = Tunnel::of(&Dissection::of(frame).unwrap())?;
    Some(tunnel.map(|tunnel| {
        (
            tunnel.kind(),
            tunnel.start(),
            tunnel.inside().start,
            tunnel.content(),
        )
    }))
}

#[test]
fn a_tunnel_is_its_kind_the_extent_of_its_header_and_its_content() {
    let at = 14 + 20;
    let rows = [
        (outer(4, &packet_v4()), Kind::IpInIp, 0, Content::Packet),
        (gre(0, 0x0800, 0, &packet_v4()), Kind::Gre, 4, Content::Packet),
        (gre(0xb0, 0x6558, 12, &frame_v4()), Kind::Gre, 16, Content::Frame),
        (
            gre(0x80, 0x8848, 4, &labels(&[1, 2, 3], &packet_v4())),
            Kind::Gre,
            20,
            Content::Packet,
        ),
        (vxlan(4789), Kind::Vxlan, 16, Content::Frame),
        (geneve(0x6558, &frame_v4()), Kind::Geneve, 20, Content::Frame),
        (geneve(0x0800, &packet_v4()), Kind::Geneve, 20, Content::Packet),
        (
            outer(50, &[0, 0, 1, 0, 0, 0, 0, 1]),
            Kind::Esp,
            0,
            Content::Encrypted,
        ),
        (
            in_udp(4500, &[0, 0, 1, 0, 0, 0, 0, 1]),
            Kind::Esp,
            8,
            Content::Encrypted,
        ),
        (
            outer(17, &frames::udp(4500, 40000, &[1; 8])),
            Kind::Esp,
            8,
            Content::Encrypted,
        ),
    ];
    for (frame, kind, header, content) in rows {
        assert_eq!(found(&frame), Some(Ok((kind, at, at + header, content))));
    }
    // Behind an IPv6 header and an extension header.
    let v6 = V6::suite(vec![frames::hop_by_hop()], 41).frame(&packet_v6());
    assert_eq!(found(&v6), Some(Ok((Kind::IpInIp, 62, 62, Content::Packet))));
}

#[test]
fn the_content_ends_where_the_lengths_say() {
    let end = |frame: &[u8]| {
        Tunnel::of(&Dissection::of(frame).unwrap())
            .unwrap()
            .unwrap()
            .inside()
            .end
    };
    let mut frame = vxlan(4789);
    let length = frame.len();
    frame.extend([0; 6]);
    assert_eq!(end(&frame), length, "padding of Ethernet");
    // UDP shorter than its packet.
    let mut short = vxlan(4789);
    short[38..40].copy_from_slice(&60_u16.to_be_bytes());
    assert_eq!(end(&short), 14 + 20 + 60);
    let captured = &short[..80];
    assert_eq!(end(captured), 80);
    short[38..40].copy_from_slice(&15_u16.to_be_bytes());
    assert_eq!(found(&short), Some(Err(Unsupported::Truncated)));
}

#[test]
fn what_does_not_lead_to_the_content_has_a_name() {
    use Unsupported as Not;
    let gre_flag = |second: u8| {
        let mut frame = gre(0, 0x0800, 0, &packet_v4());
        frame[14 + 20 + 1] = second;
        frame
    };
    let rows = [
        (gre_flag(1), Not::GreVersion),
        (gre(0x40, 0x0800, 0, &packet_v4()), Not::GreVersion),
        (gre(0x08, 0x0800, 0, &packet_v4()), Not::GreVersion),
        (gre(0, 0x0806, 0, &[0; 28]), Not::GreProtocol),
        (gre(0x80, 0x0800, 0, &[]), Not::Truncated),
        (gre(0, 0x8847, 0, &labels(&[1], &[0x10; 20])), Not::MplsNotIp),
        (gre(0, 0x8847, 0, &[0, 0, 0, 64]), Not::Truncated),
        (gre(0, 0x8847, 0, &labels(&[1], &[])), Not::Truncated),
        (outer(47, &[0, 0, 8]), Not::Truncated),
        (in_udp(4789, &[0; 60]), Not::VxlanWithoutIdentifier),
        (in_udp(4789, &[8; 7]), Not::Truncated),
        (in_udp(4789, &[]), Not::Truncated),
        (geneve_with(0x41, 0, 0x0800, &packet_v4()), Not::GeneveVersion),
        (geneve_with(1, 0x80, 0x0800, &packet_v4()), Not::GeneveControl),
        (geneve_with(1, 0x40, 0x0800, &packet_v4()), Not::GeneveCritical),
        (geneve(0x0806, &[0; 28]), Not::GeneveProtocol),
        (geneve_with(63, 0, 0x0800, &packet_v4()), Not::Truncated),
        (in_udp(6081, &[0; 3]), Not::Truncated),
        (in_udp(4500, &[1; 3]), Not::Truncated),
    ];
    for (frame, reason) in rows {
        assert_eq!(found(&frame), Some(Err(reason)));
        assert_eq!(tunnel::inner(&Dissection::of(&frame).unwrap()), None, "{reason}");
    }
}

#[test]
fn what_the_ends_of_esp_in_udp_send_each_other_is_no_tunnel() {
    for payload in [&[0xff][..], &[0, 0, 0, 0, 1, 2, 3, 4]] {
        assert_eq!(found(&in_udp(4500, payload)), None);
    }
    // An index may begin with the byte of a keepalive.
    let content = found(&in_udp(4500, &[0xff; 8])).unwrap().unwrap().3;
    assert_eq!(content, Content::Encrypted);
}

#[test]
fn labels_behind_ethernet_lead_to_the_packet() {
    let of = |tags: &[(u16, u16)], ether_type, payload: &[u8]| {
        let frame = frames::ethernet(tags, ether_type, payload);
        Tunnel::of_labels(&frame).map(|tunnel| {
            tunnel.map(|tunnel| {
                (
                    tunnel.kind(),
                    tunnel.start()..tunnel.inside().start,
                    tunnel.content(),
                )
            })
        })
    };
    let stack = labels(&[16, 1_000_000], &packet_v4());
    let expected = |start| Some(Ok((Kind::Mpls, start..start + 8, Content::Packet)));
    assert_eq!(of(&[], 0x8847, &stack), expected(14));
    assert_eq!(of(&[(0x88a8, 5), (0x8100, 6)], 0x8848, &stack), expected(22));
    assert_eq!(of(&[], 0x0800, &packet_v4()), None);
    // A pseudowire begins with a control word (RFC 4385, section 3).
    let pseudowire = labels(&[16], &[0; 60]);
    assert_eq!(of(&[], 0x8847, &pseudowire), Some(Err(Unsupported::MplsNotIp)));
    for length in [0, 3, 4, 8] {
        assert_eq!(
            of(&[], 0x8847, &stack[..length]),
            Some(Err(Unsupported::Truncated)),
            "{length}"
        );
    }
}

#[test]
fn nothing_is_inside_plain_packets_fragments_and_cut_headers() {
    let fragment = V4 {
        protocol: 4,
        fragment: 0x2000,
        ..V4::SUITE
    };
    let rows = [
        ("plain", frame_v4()),
        ("fragment", fragment.frame(&packet_v4())),
        ("encrypted", outer(50, &[1; 40])),
        (
            "Ethernet without IP",
            geneve(0x6558, &frames::ethernet(&[], 0x0806, &[0; 28])),
        ),
        ("cut", outer(4, &packet_v4()[..19])),
    ];
    for (name, frame) in rows {
        assert_eq!(tunnel::inner(&Dissection::of(&frame).unwrap()), None, "{name}");
    }
}
