//! Captures with frames cut short: what was not captured is not taken for misplaced.

use crate::common::built;
use crate::common::frames::{self, V4, V6};
use corelane_packet::verify::{Cause, Observed, Queue, Report, Rule, Verifier};
use corelane_packet::{Dissection, HashTypes, tunnel};
use corelane_rss::{HashType, IndirectionTable, Key, Transform, oracle};
use proptest::prelude::*;

fn rule(hash_types: HashTypes) -> Rule {
    Rule {
        key: Key::VERIFICATION,
        hash_types,
        transform: Transform::Plain,
        table: IndirectionTable::round_robin(128, 4).unwrap(),
    }
}

fn by_hash(hash: u32) -> Observed {
    Observed {
        hash: Some(hash),
        queue: Some(Queue((hash & 3) as u16)),
        sequence: None,
    }
}

/// What a device that follows the rule reports of the whole frame.
fn right(frame: &[u8], types: HashTypes) -> Observed {
    match Dissection::of(frame).unwrap().rss_input(types) {
        Some(input) => by_hash(oracle::toeplitz(&Key::VERIFICATION, input.as_bytes())),
        None => by_hash(0),
    }
}

fn report(frame: &[u8], types: HashTypes, observed: Observed) -> Report {
    let mut verifier = Verifier::new(&rule(types));
    verifier.frame(frame, observed);
    verifier.report()
}

fn all_types() -> impl Iterator<Item = HashTypes> {
    (0..512_u32).map(|bits| {
        let of_bit = |bit: u32| HashType::from_ndis(bits << 8 & 1 << bit);
        (0..u32::BITS).filter_map(of_bit).collect()
    })
}

/// A frame of each way to the ports, with the offset of the end of what its hash needs.
fn samples() -> Vec<(&'static str, Vec<u8>, usize)> {
    let (udp, tcp) = (
        || frames::udp(2794, 1766, b"payload of a datagram"),
        || frames::tcp(2794, 1766, 7, b"payload of a segment"),
    );
    let v4 = |protocol, options| V4 {
        protocol,
        options,
        ..V4::SUITE
    };
    let mobile = vec![
        frames::home_address("3ffe:2501:200:1fff::7"),
        frames::routing_type_2("3ffe:2501:200:3::1"),
    ];
    let first_part = V4 {
        fragment: 0x2000,
        ..V4::SUITE
    };
    vec![
        ("UDP over IPv4", v4(17, &[]).frame(&udp()), 14 + 20 + 4),
        ("TCP over IPv4", v4(6, &[]).frame(&tcp()), 14 + 20 + 4),
        ("options", v4(6, &[1; 12]).frame(&tcp()), 14 + 32 + 4),
        ("first part", first_part.frame(&udp()), 14 + 20),
        ("UDP over IPv6", V6::suite(vec![], 17).frame(&udp()), 14 + 40 + 4),
        (
            "mobile",
            V6::suite(mobile, 6).frame(&tcp()),
            14 + 40 + 24 + 24 + 4,
        ),
        (
            "part over IPv6",
            V6::suite(vec![frames::fragment_header(0, true, 1)], 17).frame(&udp()),
            14 + 40 + 8,
        ),
        (
            "behind an authentication header",
            V6::suite(vec![frames::authentication()], 17).frame(&udp()),
            14 + 40 + 24,
        ),
    ]
}

#[test]
fn frames_cut_before_what_is_hashed_are_counted_and_all_others_checked() {
    for (name, frame, needed) in samples() {
        let observed = right(&frame, HashTypes::ALL);
        for length in 0..=frame.len() {
            let report = report(&frame[..length], HashTypes::ALL, observed);
            let counts = (report.misplaced, report.cut_short);
            assert_eq!(counts, (0, u64::from(length < needed)), "{name} cut to {length}");
        }
    }
}

#[test]
fn addresses_are_enough_for_types_without_ports() {
    let (_, frame, with_ports) = samples().swap_remove(1);
    let observed = right(&frame, HashTypes::TWO_TUPLE);
    for length in 14 + 20..with_ports {
        let report = report(&frame[..length], HashTypes::TWO_TUPLE, observed);
        assert_eq!((report.misplaced, report.cut_short), (0, 0), "{length}");
        assert_eq!(report.buckets.iter().map(|bucket| bucket.seen).sum::<u64>(), 1);
    }
}

#[test]
fn a_packet_too_long_for_its_length_field_hides_its_ports_too() {
    let mut v4 = V4 {
        protocol: 6,
        ..V4::SUITE
    }
    .frame(&frames::tcp(2794, 1766, 7, b"payload"));
    v4[16..18].fill(0);
    let mut v6 = V6::suite(vec![], 6).frame(&frames::tcp(2794, 1766, 7, b"payload"));
    v6[18..20].fill(0);
    for frame in [&v4[..14 + 20 + 3], &v6[..14 + 40 + 3]] {
        assert_eq!(report(frame, HashTypes::ALL, by_hash(1)).cut_short, 1);
    }
}

#[test]
fn a_packet_with_the_ports_of_no_protocol_is_checked_however_short() {
    // By its own length the packet has no whole header: the device sees no ports either.
    let frame = V4 {
        protocol: 6,
        ..V4::SUITE
    }
    .frame(&frames::tcp(2794, 1766, 7, b"")[..12]);
    let observed = right(&frame, HashTypes::ALL);
    let report = report(&frame[..14 + 20 + 2], HashTypes::ALL, observed);
    assert_eq!((report.misplaced, report.cut_short), (0, 0));
}

#[test]
fn what_a_tunnel_hides_is_no_other_key() {
    let inner = V4::SUITE.frame(&frames::udp(2794, 1766, b"payload"));
    let payload = [&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat();
    let frame = V4 {
        destination: [10, 0, 0, 2].into(),
        ..V4::SUITE
    }
    .frame(&frames::udp(40001, 4789, &payload));
    // A device that hashes what is inside.
    let outer = Dissection::of(&frame).unwrap();
    let inside = tunnel::inner(&outer).unwrap();
    let input = inside.rss_input(HashTypes::FOUR_TUPLE).unwrap();
    let observed = by_hash(oracle::toeplitz(&Key::VERIFICATION, input.as_bytes()));
    let right = right(&frame, HashTypes::FOUR_TUPLE);
    assert_ne!(right.queue, observed.queue, "the frame would be misplaced");
    let inner_ports = frame.len() - b"payload".len() - 4;
    for length in 14 + 20 + 4..=frame.len() {
        let frame = &frame[..length];
        let misplaced = report(frame, HashTypes::FOUR_TUPLE, observed);
        let expected = match length < inner_ports {
            true => Cause::CutShort,
            false => Cause::Tunnel,
        };
        let causes: Vec<_> = misplaced.causes.iter().map(|cause| cause.cause).collect();
        assert_eq!(causes, [expected], "{length}");
        // The outer header is what the rule hashes: such frames are checked.
        let right = report(frame, HashTypes::FOUR_TUPLE, right);
        assert_eq!((right.misplaced, right.cut_short), (0, 0), "{length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_frame_cut_anywhere_is_refused_or_hashes_as_the_whole_one(shape in built::shape()) {
        let frame = shape.frame();
        let whole = Dissection::of(&frame).unwrap();
        for types in all_types() {
            let input = whole.rss_input(types);
            for length in 0..=frame.len() {
                if let Ok(cut) = Dissection::of_hashed(&frame[..length], types) {
                    prop_assert_eq!(cut.rss_input(types), input, "{} cut to {}", types, length);
                }
            }
            prop_assert!(!whole.hides_hash_input(types));
        }
    }
}
