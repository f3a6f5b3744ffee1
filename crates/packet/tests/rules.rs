//! Which bytes of which packets are hashed, and as which type: one table of packets with the result for each policy.

use crate::common::frames::{self, V4, V6};
use corelane_packet::{Dissection, Fragment, HashTypes, Ports, Refusal, TransportHeader};
use corelane_rss::{HashType, Key, Toeplitz};

/// Hashes of the suite's first rows, ports 2794 and 1766 (Microsoft, "Verifying the RSS Hash Calculation").
const V4_TWO: u32 = 0x323e_8fc2;
const V4_FOUR: u32 = 0x51cc_c178;
const V6_TWO: u32 = 0x2cc1_8cd5;
const V6_FOUR: u32 = 0x4020_7d3d;

fn hashed(frame: &[u8], enabled: HashTypes) -> Option<(u32, HashType)> {
    let dissection = Dissection::of(frame).expect("an IP packet");
    let hash = dissection
        .rss_input(enabled)?
        .hash(&Toeplitz::new(&Key::VERIFICATION));
    Some((hash.value, hash.hash_type))
}

fn udp() -> Vec<u8> {
    frames::udp(2794, 1766, b"sixteen bytes...")
}

fn tcp() -> Vec<u8> {
    frames::tcp(2794, 1766, 1, b"data")
}

fn v4(protocol: u8) -> V4<'static> {
    V4 {
        protocol,
        ..V4::SUITE
    }
}

#[test]
fn each_policy_takes_the_fields_it_names() {
    use HashType as T;
    let policies = [
        HashTypes::FOUR_TUPLE,
        HashTypes::DRIVER_DEFAULT,
        HashTypes::TWO_TUPLE,
    ];
    let rows = [
        (
            "TCP/IPv4",
            v4(6).frame(&tcp()),
            [(V4_FOUR, T::TCP_IPV4), (V4_FOUR, T::TCP_IPV4), (V4_TWO, T::IPV4)],
        ),
        (
            "UDP/IPv4",
            v4(17).frame(&udp()),
            [(V4_FOUR, T::UDP_IPV4), (V4_TWO, T::IPV4), (V4_TWO, T::IPV4)],
        ),
        (
            "TCP/IPv6",
            V6::suite(vec![], 6).frame(&tcp()),
            [(V6_FOUR, T::TCP_IPV6), (V6_FOUR, T::TCP_IPV6), (V6_TWO, T::IPV6)],
        ),
        (
            "UDP/IPv6",
            V6::suite(vec![], 17).frame(&udp()),
            [(V6_FOUR, T::UDP_IPV6), (V6_TWO, T::IPV6), (V6_TWO, T::IPV6)],
        ),
        (
            "SCTP",
            v4(132).frame(&frames::sctp(2794, 1766)),
            [(V4_TWO, T::IPV4); 3],
        ),
        ("ESP", v4(50).frame(&[0xee; 40]), [(V4_TWO, T::IPV4); 3]),
    ];
    for (name, frame, expected) in rows {
        let found = policies.map(|policy| hashed(&frame, policy).expect("addresses are always enabled here"));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_packet_that_no_enabled_type_fits_is_not_hashed() {
    let only_tcp = HashTypes::NONE.with(HashType::TCP_IPV4);
    assert_eq!(hashed(&v4(17).frame(&udp()), only_tcp), None);
    assert_eq!(
        hashed(&v4(6).frame(&tcp()), only_tcp),
        Some((V4_FOUR, HashType::TCP_IPV4))
    );
    let no_v6 = HashTypes::FOUR_TUPLE
        .without(HashType::IPV6)
        .without(HashType::UDP_IPV6);
    assert_eq!(hashed(&V6::suite(vec![], 17).frame(&udp()), no_v6), None);
}

#[test]
fn tags_and_options_move_the_headers_and_change_no_hash() {
    let options = V4 {
        options: &[1, 1, 1, 0, 148, 4, 0, 0],
        ..V4::SUITE
    };
    let tagged = frames::ethernet(
        &[(0x88a8, 100), (0x8100, 0x2064)],
        0x0800,
        &options.packet(&udp()),
    );
    let thrice = frames::ethernet(
        &[(0x9100, 1), (0x8100, 2), (0x8100, 3)],
        0x0800,
        &V4::SUITE.packet(&udp()),
    );
    for frame in [tagged, thrice, options.frame(&udp())] {
        assert_eq!(
            hashed(&frame, HashTypes::FOUR_TUPLE),
            Some((V4_FOUR, HashType::UDP_IPV4))
        );
    }
}

#[test]
fn every_fragment_of_a_datagram_hashes_by_its_addresses() {
    let part = |field| V4 {
        fragment: field,
        ..V4::SUITE
    };
    for field in [0x2000, 0x2001, 0x00b9] {
        let frame = part(field).frame(&udp());
        assert_eq!(
            hashed(&frame, HashTypes::ALL),
            Some((V4_TWO, HashType::IPV4)),
            "{field:04x}"
        );
    }
    for (offset, more) in [(0, true), (8, true), (1480, false)] {
        let header = frames::fragment_header(offset, more, 7);
        let frame = V6::suite(vec![header], 17).frame(&udp());
        assert_eq!(
            hashed(&frame, HashTypes::FOUR_TUPLE),
            Some((V6_TWO, HashType::IPV6))
        );
        assert_eq!(hashed(&frame, HashTypes::ALL), Some((V6_TWO, HashType::IPV6_EX)));
    }
}

#[test]
fn ports_show_in_the_first_fragment_and_in_no_later_one() {
    let ports = |field| {
        let frame = V4 {
            fragment: field,
            ..V4::SUITE
        }
        .frame(&udp());
        Dissection::of(&frame).unwrap().transport()
    };
    let expected = Ports {
        source: 2794,
        destination: 1766,
    };
    assert_eq!(ports(0x2000), TransportHeader::Udp(expected));
    assert_eq!(ports(0x2001), TransportHeader::InFirstFragment);
}

#[test]
fn an_atomic_fragment_is_a_whole_datagram_and_hashes_as_a_fragment() {
    let atomic = V6::suite(vec![frames::fragment_header(0, false, 0xabcd_ef01)], 17).frame(&udp());
    let dissection = Dissection::of(&atomic).unwrap();
    assert_eq!(
        dissection.fragment(),
        Fragment::Atomic {
            identification: 0xabcd_ef01
        }
    );
    assert_eq!(
        hashed(&atomic, HashTypes::FOUR_TUPLE),
        Some((V6_TWO, HashType::IPV6))
    );
    assert_eq!(hashed(&atomic, HashTypes::ALL), Some((V6_TWO, HashType::IPV6_EX)));
}

/// A packet between care-of addresses; its extension headers contain the suite's addresses.
fn mobile(mut behind: Vec<(u8, Vec<u8>)>, protocol: u8) -> V6 {
    let mut extensions = vec![
        frames::routing_type_2("3ffe:2501:200:3::1"),
        frames::home_address("3ffe:2501:200:1fff::7"),
    ];
    extensions.append(&mut behind);
    V6 {
        source: "2001:db8::5".parse().unwrap(),
        destination: "2001:db8::6".parse().unwrap(),
        extensions,
        protocol,
    }
}

#[test]
fn extension_types_take_the_home_address_and_the_routed_destination() {
    let frame = mobile(vec![], 6).frame(&tcp());
    assert_eq!(
        hashed(&frame, HashTypes::ALL),
        Some((V6_FOUR, HashType::TCP_IPV6_EX))
    );
    let (hash, hash_type) = hashed(&frame, HashTypes::FOUR_TUPLE).unwrap();
    assert_eq!(hash_type, HashType::TCP_IPV6);
    assert_ne!(hash, V6_FOUR, "the addresses of the IP header");
    let addresses_only = HashTypes::FOUR_TUPLE.with(HashType::IPV6_EX);
    assert_eq!(hashed(&frame, addresses_only), Some((V6_TWO, HashType::IPV6_EX)));
    let dissection = Dissection::of(&frame).unwrap();
    assert_eq!(dissection.source().to_string(), "2001:db8::5");
    assert_eq!(
        dissection.home_address().unwrap().to_string(),
        "3ffe:2501:200:1fff::7"
    );
    assert_eq!(
        dissection.routed_destination().unwrap().to_string(),
        "3ffe:2501:200:3::1"
    );
}

#[test]
fn a_home_address_that_only_the_first_fragment_has_is_not_taken() {
    let header = |offset, more| frames::fragment_header(offset, more, 7);
    let of = |extensions| {
        V6 {
            extensions,
            ..mobile(vec![], 17)
        }
        .frame(&udp())
    };
    let first = of(vec![
        header(0, true),
        frames::home_address("3ffe:2501:200:1fff::7"),
    ]);
    let later = of(vec![header(1448, false)]);
    assert_eq!(hashed(&first, HashTypes::ALL), hashed(&later, HashTypes::ALL));
    let before = mobile(vec![header(0, true)], 17).frame(&udp());
    assert_eq!(hashed(&before, HashTypes::ALL), Some((V6_TWO, HashType::IPV6_EX)));
}

#[test]
fn other_routing_headers_and_those_at_their_end_name_no_destination() {
    let (_, type_2) = frames::routing_type_2("3ffe:2501:200:3::1");
    for (kind, segments_left) in [(2, 0), (0, 1), (4, 1)] {
        let mut body = type_2.clone();
        (body[0], body[1]) = (kind, segments_left);
        let frame = V6::suite(vec![(43, body)], 17).frame(&udp());
        assert_eq!(Dissection::of(&frame).unwrap().routed_destination(), None);
        assert_eq!(
            hashed(&frame, HashTypes::FOUR_TUPLE),
            Some((V6_FOUR, HashType::UDP_IPV6))
        );
    }
}

#[test]
fn behind_an_authentication_header_ports_are_seen_and_not_hashed() {
    let (_, mut header) = frames::authentication();
    header.splice(..0, [17, 4]);
    let payload = [header, udp()].concat();
    for (frame, expected) in [
        (v4(51).frame(&payload), (V4_TWO, HashType::IPV4)),
        (
            V6::suite(vec![frames::authentication()], 17).frame(&udp()),
            (V6_TWO, HashType::IPV6),
        ),
    ] {
        assert_eq!(
            Dissection::of(&frame).unwrap().ports(),
            Some(Ports {
                source: 2794,
                destination: 1766
            })
        );
        assert_eq!(hashed(&frame, HashTypes::FOUR_TUPLE), Some(expected));
    }
}

#[test]
fn a_capture_cut_behind_the_ports_hashes_as_the_whole_packet_did() {
    let whole = v4(6).frame(&tcp());
    let (with_ports, without) = (&whole[..14 + 20 + 4], &whole[..14 + 20 + 3]);
    assert_eq!(
        hashed(with_ports, HashTypes::FOUR_TUPLE),
        Some((V4_FOUR, HashType::TCP_IPV4))
    );
    assert!(Dissection::of(with_ports).unwrap().is_truncated());
    assert_eq!(
        hashed(without, HashTypes::FOUR_TUPLE),
        Some((V4_TWO, HashType::IPV4))
    );
    assert_eq!(
        Dissection::of(without).unwrap().transport(),
        TransportHeader::Missing
    );
}

#[test]
fn a_packet_too_short_for_its_transport_header_hashes_by_its_addresses() {
    let mut frame = v4(6).frame(&tcp()[..12]);
    frame.resize(60, 0);
    assert_eq!(
        hashed(&frame, HashTypes::FOUR_TUPLE),
        Some((V4_TWO, HashType::IPV4))
    );
    assert_eq!(
        Dissection::of(&frame).unwrap().packet_end(),
        14 + 20 + 12,
        "padding does not belong to the packet"
    );
}

#[test]
fn what_has_no_addresses_is_refused_by_name() {
    let arp = frames::ethernet(&[(0x8100, 5)], 0x0806, &[0; 28]);
    assert!(matches!(Dissection::of(&arp), Err(Refusal::NotIp { .. })));
    assert!(Dissection::of(&arp).unwrap_err().to_string().contains("0x0806"));
    let mismatched = frames::ethernet(&[], 0x86dd, &V4::SUITE.packet(&[0; 40]));
    assert!(matches!(
        Dissection::of(&mismatched),
        Err(Refusal::Version { version: 4, .. })
    ));
    let deep = frames::ethernet(&vec![(0x8100, 1); 17_000], 0x0800, &V4::SUITE.packet(&udp()));
    assert!(matches!(Dissection::of(&deep), Err(Refusal::TooDeep { .. })));
}

#[test]
fn an_endless_chain_of_headers_ends_where_offsets_do() {
    let mut frame = frames::ethernet(&[], 0x86dd, &V6::suite(vec![], 60).packet(&[]));
    frame[18..20].fill(0xff);
    frame.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(10_000));
    let dissection = Dissection::of(&frame).unwrap();
    assert_eq!(dissection.transport(), TransportHeader::Missing);
    assert!(dissection.transport_offset() > 65_520);
}
