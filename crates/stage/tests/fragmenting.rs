//! Packets are cut as their MTU says, and what was cut is made whole again.

use crate::common::Runner;
use crate::reassembly::Bench;
use crate::reassembly::frames::{FAMILIES, Family, Fragment, bytes, data};
use corelane_packet::{Dissection, Fragment as Found, checksum};
use corelane_stage::Stage;
use corelane_stage::fragmenting::{Counts, Fragmenting, Plan};
use corelane_stage::reassembly;
use proptest::prelude::*;
use std::sync::Arc;

fn fragmenting(mtu: u16) -> (Fragmenting, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Fragmenting::new(&Plan { mtu }, Arc::clone(&counts)), counts)
}

/// Makes datagrams of fragments, and cuts them to the MTU.
fn cutting_again(mtu: u16) -> impl Stage {
    let reassembly = reassembly::Reassembly::new(reassembly::Plan::default(), 1, Arc::default());
    (reassembly, fragmenting(mtu).0)
}

/// Offset, length and whether more follow, of each fragment, and that each is at most as long as the MTU permits.
fn parts(frames: &[Vec<u8>], mtu: usize) -> Vec<(usize, usize, bool)> {
    let part = |frame: &Vec<u8>| {
        let dissection = Dissection::of(frame).unwrap();
        assert!(dissection.packet_end() - dissection.network_offset() <= mtu);
        assert_eq!(dissection.packet_end(), frame.len(), "no padding");
        let Found::Part(part) = dissection.fragment() else {
            panic!("{dissection:?} is no fragment")
        };
        let length = frame.len() - dissection.fragment_data();
        (usize::from(part.offset), length, part.more)
    };
    frames.iter().map(part).collect()
}

#[test]
fn a_packet_of_ipv4_is_cut_into_the_fewest_fragments_in_order_where_it_was() {
    let (stage, counts) = fragmenting(100);
    let whole = Fragment::new(Family::V4, 0x1234, 0, false, &bytes(200, 1));
    let other = Fragment::new(Family::V4, 1, 0, false, &bytes(80, 1)).frame();
    let left = Runner::new(stage).run(&[other.clone(), whole.frame(), other.clone()]);
    assert_eq!((&left[0], &left[4]), (&other, &other), "as long as the MTU");
    assert_eq!(
        parts(&left[1..4], 100),
        [(0, 80, true), (80, 80, true), (160, 40, false)]
    );
    let sent: Vec<u8> = left[1..4].iter().flat_map(|frame| data(frame).to_vec()).collect();
    assert_eq!(sent, bytes(200, 1));
    for frame in &left[1..4] {
        assert_eq!(frame[..14], whole.frame()[..14]);
        assert_eq!(frame[18..20], [0x12, 0x34]);
        assert_eq!(checksum::internet(&frame[14..34]), 0);
    }
    assert_eq!((counts.cut.get(), counts.fragments.get()), (1, 3));
}

#[test]
fn options_are_in_all_fragments_if_they_are_copied_and_a_fragment_is_cut_further() {
    let (stage, _) = fragmenting(68);
    let mut whole = Fragment::new(Family::V4, 7, 800, true, &bytes(80, 2));
    // No operation; a stream identifier, which is copied; a record of a route, which is not; the end (RFC 791, section 3.1).
    whole.options.1 = vec![1, 0x88, 4, 9, 9, 7, 4, 4, 0, 0, 0, 0];
    let left = Runner::new(stage).run(&[whole.frame()]);
    assert_eq!(
        parts(&left, 68),
        [(800, 32, true), (832, 40, true), (872, 8, true)]
    );
    assert_eq!(left[0][34..46], whole.options.1);
    for later in &left[1..] {
        assert_eq!((later[14], &later[34..38]), (0x46, &[0x88, 4, 9, 9][..]));
        assert_eq!(checksum::internet(&later[14..38]), 0);
    }
}

#[test]
fn what_is_not_to_be_cut_is_dropped_unless_it_came_in_fragments() {
    let (stage, counts) = fragmenting(100);
    let mut whole = Fragment::new(Family::V4, 1, 0, false, &bytes(200, 1));
    whole.flags = 0x40;
    let two: Vec<_> = [(0, true), (96, false)]
        .map(|(offset, more)| Fragment {
            offset,
            more,
            data: bytes(200, 1)[offset..][..if more { 96 } else { 104 }].to_vec(),
            ..whole.clone()
        })
        .iter()
        .map(Fragment::frame)
        .collect();
    let mut runner = Runner::new(stage);
    assert_eq!(runner.run(&[whole.frame()]).len(), 0);
    assert_eq!(counts.dont_fragment.get(), 1);
    let left = Runner::new(cutting_again(100)).run(&two);
    assert_eq!(
        parts(&left, 100),
        [(0, 80, true), (80, 80, true), (160, 40, false)]
    );
    assert!(left.iter().all(|frame| frame[20] & 0x40 != 0));

    // Only its source cuts a packet of IPv6.
    let whole = Bench::new(reassembly::Plan::default()).run(&[
        Fragment::new(Family::V6, 1, 0, true, &bytes(104, 1)).frame(),
        Fragment::new(Family::V6, 1, 104, false, &bytes(8, 1)).frame(),
    ]);
    assert_eq!(runner.run(&whole).len(), 0);
    assert_eq!(counts.only_by_source.get(), 1);
    let cut = [whole[0].len() - 1, 155].map(|length| whole[0][..length].to_vec());
    let left = runner.run(&cut);
    assert_eq!((left.len(), counts.malformed.get()), (0, 2));
    let not_ip = vec![vec![0; 1000]];
    assert_eq!(runner.run(&not_ip), not_ip);
}

#[test]
fn the_longest_datagrams_are_cut() {
    for (family, longest) in [(Family::V4, 65_515), (Family::V6, 65_535)] {
        let whole = bytes(longest, 3);
        let two = [(0, &whole[..64_000]), (64_000, &whole[64_000..])]
            .map(|(offset, data)| Fragment::new(family, 1, offset, offset == 0, data).frame());
        let left = Runner::new(cutting_again(1500)).run(&two);
        let parts = parts(&left, 1500);
        assert!(parts.len() > 40, "{family:?}");
        assert_eq!(parts.iter().map(|(_, length, _)| length).sum::<usize>(), longest);
    }
}

#[test]
fn an_mtu_below_what_ipv4_needs_is_refused() {
    let read = |text: &str| toml::from_str::<Plan>(text).map_err(|error| error.message().to_owned());
    assert_eq!(read("mtu = 68"), Ok(Plan { mtu: 68 }));
    assert_eq!(
        read("mtu = 67"),
        Err("an MTU of 67 bytes: IPv4 needs 68 at least".to_owned())
    );
    assert!(read("mtu = 65536").is_err());
    assert!(read("mtu = 1500\nsize = 1").is_err());
}

/// Headers before the fragment header of IPv6, or options of IPv4, whole and well-formed.
fn options(family: Family, choice: usize) -> (u8, Vec<u8>) {
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let routing = [
        44, 2, 253, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ];
    match (family, choice % 4) {
        (_, 0) => (0, Vec::new()),
        (Family::V4, 1) => (0, vec![1, 1, 1, 0]),
        (Family::V4, 2) => (0, vec![0x88, 4, 1, 2]),
        (Family::V4, _) => (0, vec![7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0, 0]),
        (Family::V6, 1) => (0, pad(44).to_vec()),
        (Family::V6, 2) => (43, routing.to_vec()),
        (Family::V6, _) => (0, [&pad(60)[..], &pad(43), &routing].concat()),
    }
}

proptest! {
    #[test]
    fn a_datagram_cut_and_made_whole_is_itself(
        is_v6 in any::<bool>(),
        length in prop_oneof![17..200_usize, 1000..20_000_usize],
        choices in (0..4_usize, 0..3_usize),
        mtus in (300..2000_u16, 300..2000_u16),
        class in any::<u8>(),
        draws in any::<u64>(),
        repeated in 0..4_usize,
    ) {
        let family = FAMILIES[usize::from(is_v6)];
        let content = bytes(length, draws as u8);
        let (head, tail) = content.split_at((length / 2) & !7);
        let part = |offset: usize, data: &[u8]| Fragment {
            class,
            options: options(family, choices.0),
            tags: [0x81, 0, 0, 5].repeat(choices.1),
            ..Fragment::new(family, draws as u32, offset, offset == 0, data)
        };
        let two = [part(0, head).frame(), part(head.len(), tail).frame()];
        let whole = Bench::new(reassembly::Plan::default()).run(&two);
        prop_assert_eq!(whole.len(), 1);

        // Cut once, then made whole and cut again elsewhere. What left whole is not this stage's to cut any more.
        let once = Runner::new(cutting_again(mtus.0)).run(&two);
        let twice = Runner::new(cutting_again(mtus.1)).run(if once.len() > 1 { &once } else { &two });
        for (cut, mtu) in [(once, mtus.0), (twice, mtus.1)] {
            let is_cut = whole[0].len() - 14 - 4 * choices.1 > usize::from(mtu);
            prop_assert_eq!(cut.len() > 1, is_cut);
            if is_cut {
                parts(&cut, mtu.into());
            }
            // In another order, some twice, but not all: they would make another one.
            let mut mixed = cut.clone();
            mixed.extend(cut.iter().take(repeated.min(cut.len() - 1)).cloned());
            let mut rest = draws;
            for place in (1..mixed.len()).rev() {
                rest = rest.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                mixed.swap(place, (rest >> 33) as usize % (place + 1));
            }
            let mut bench = Bench::new(reassembly::Plan::default());
            let left = bench.run(&mixed);
            prop_assert_eq!(left.len(), 1, "{:?}", bench.counts);
            prop_assert_eq!(&left[0], &whole[0]);
        }
    }
}
