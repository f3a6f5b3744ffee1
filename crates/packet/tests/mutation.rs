//! Frames of every kind, damaged byte by byte, truncated and spliced: no panic, no read beyond the frame, and every
//! documented property of a dissection holds.

use crate::common::frames::{self, V4, V6};
use crate::common::invariants;
use proptest::prelude::*;

/// A frame of each kind that dissection distinguishes.
fn seeds() -> Vec<Vec<u8>> {
    let datagram = frames::udp(2794, 1766, b"payload");
    let inner = V4::SUITE.packet(&datagram);
    let tcp = frames::tcp(2794, 1766, 1, b"data");
    let options = V4 {
        options: &[7, 7, 4, 1, 2, 3, 4, 131, 7, 4, 10, 0, 0, 9, 0, 0],
        protocol: 6,
        ..V4::SUITE
    };
    let fragment = V4 {
        fragment: 0x2000,
        ..V4::SUITE
    };
    let chain = vec![
        frames::hop_by_hop(),
        frames::routing_type_2("2001:db8::2"),
        frames::home_address("2001:db8::1"),
        frames::fragment_header(0, false, 7),
        frames::authentication(),
    ];
    let later = vec![frames::fragment_header(1480, false, 7)];
    let protocol = |protocol| V4 {
        protocol,
        ..V4::SUITE
    };
    vec![
        V4::SUITE.frame(&datagram),
        options.frame(&tcp),
        fragment.frame(&datagram),
        V6::suite(vec![], 17).frame(&datagram),
        V6::suite(chain, 6).frame(&tcp),
        V6::suite(later, 17).frame(&datagram),
        frames::ethernet(&[(0x88a8, 100), (0x8100, 200)], 0x0800, &inner),
        protocol(132).frame(&frames::sctp(2794, 1766)),
        protocol(50).frame(&[0xee; 40]),
        protocol(4).frame(&inner),
        protocol(47).frame(&[&[0x30, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8], &inner[..]].concat()),
        V4::SUITE.frame(&frames::udp(
            40000,
            4789,
            &[&[8, 0, 0, 0, 0, 0, 7, 0], &V4::SUITE.frame(&datagram)[..]].concat(),
        )),
        V4::SUITE.frame(&frames::udp(
            40000,
            6081,
            &[&[1, 0, 8, 0, 0, 0, 7, 0, 1, 2, 3, 4], &inner[..]].concat(),
        )),
    ]
}

#[test]
fn every_frame_holds_whole_and_cut_anywhere() {
    for seed in seeds() {
        for length in 0..=seed.len() {
            invariants::hold_for(&seed[..length]);
            invariants::hold_for(&seed[seed.len() - length..]);
        }
    }
}

#[test]
fn every_frame_holds_with_any_one_byte_changed() {
    for seed in seeds() {
        for at in 0..seed.len() {
            for value in 0..=255 {
                let mut frame = seed.clone();
                frame[at] = value;
                invariants::hold_for(&frame);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn frames_hold_with_several_bytes_changed_and_the_end_cut(
        which in 0_usize..13,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        kept in 0.3_f64..=1.0,
    ) {
        let mut frame = seeds().swap_remove(which);
        for (at, value) in changes {
            *at.get_mut(&mut frame) = value;
        }
        frame.truncate((frame.len() as f64 * kept) as usize);
        invariants::hold_for(&frame);
    }

    #[test]
    fn any_bytes_hold(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        invariants::hold_for(&bytes);
    }
}

#[test]
fn what_fuzzing_found_worth_keeping_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/dissect");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        invariants::hold_for(&std::fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{folder} is empty");
}
