//! What a whole datagram has of its fragments, and which fragments are of one datagram.

use super::Bench;
use super::frames::{FAMILIES, Family, Fragment, bytes, data};
use corelane_packet::{Dissection, checksum};
use corelane_stage::Stage;
use corelane_stage::reassembly::{Plan, Reassembly};
use std::sync::Arc;

/// A datagram's data in parts of these lengths, all but the last multiples of 8.
fn cut(family: Family, id: u32, data: &[u8], lengths: &[usize]) -> Vec<Fragment> {
    let mut offset = 0;
    let part = |length: &usize| {
        let (from, to) = (offset, offset + length);
        offset = to;
        Fragment::new(family, id, from, to < data.len(), &data[from..to])
    };
    lengths.iter().map(part).collect()
}

fn frames(fragments: &[Fragment]) -> Vec<Vec<u8>> {
    fragments.iter().map(Fragment::frame).collect()
}

#[test]
fn in_any_order_a_datagram_is_whole_where_its_last_fragment_was() {
    for family in FAMILIES {
        let whole = bytes(1000, 3);
        let parts = frames(&cut(family, 9, &whole, &[400, 256, 344]));
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut bench = Bench::new(Plan::default());
            let [first, second, last] = order.map(|number| parts[number].clone());
            let other = b"not IP at all, but passes".to_vec();
            let batch = [first, other.clone(), second, last, other.clone()];
            let left = bench.run(&batch);
            assert_eq!(left.len(), 3, "{family:?} {order:?}");
            assert_eq!((&left[0], &left[2]), (&other, &other));
            assert_eq!(data(&left[1]), whole);
            let dissection = Dissection::of(&left[1]).unwrap();
            assert!(!dissection.is_fragment());
            assert_eq!(dissection.packet_end(), left[1].len());
            assert_eq!(bench.dropped(), []);
            let counts = &bench.counts;
            let waiting = (
                counts.waiting.get(),
                counts.datagrams_waiting.get(),
                counts.memory.get(),
            );
            assert_eq!(waiting, (0, 0, 0));
            assert_eq!((counts.datagrams.get(), counts.made_whole.get()), (1, 3));
        }
    }
}

#[test]
fn fragments_go_on_waiting_when_settings_change_and_lower_limits_hold_for_what_comes() {
    let whole = bytes(1000, 3);
    let of = |id| frames(&cut(Family::V4, id, &whole, &[400, 600]));
    let mut bench = Bench::new(Plan::default());
    for id in 0..10 {
        assert!(bench.run(&of(id)[..1]).is_empty());
    }
    let plan = Plan {
        datagrams: 4,
        memory: 4096,
        ..Plan::default()
    };
    let mut next = Reassembly::new(plan, 8, Arc::clone(&bench.counts));
    std::mem::swap(&mut bench.runner.stage, &mut next);
    bench.runner.stage.take_over(next);
    let left = bench.run(&of(0)[1..]);
    assert_eq!(left.iter().map(|frame| data(frame)).collect::<Vec<_>>(), [&whole]);
    // Of the nine others, the six oldest make room for this one.
    assert!(bench.run(&of(10)[..1]).is_empty());
    assert_eq!(bench.dropped(), [("too_many_datagrams", 6)]);
    assert_eq!(bench.counts.datagrams_waiting.get(), 4);
    assert_eq!(bench.run(&of(9)[1..]).len(), 1);
}

#[test]
fn the_headers_are_those_of_offset_0_and_the_checksum_is_right() {
    let mut parts = cut(Family::V4, 0x1234, &bytes(64, 1), &[32, 32]);
    (parts[0].ttl, parts[1].ttl) = (3, 60);
    // No operation, three times, and the end of options (RFC 791, section 3.1).
    parts[0].options.1 = vec![1, 1, 1, 0];
    parts[0].class = 0xb8;
    for order in [[0, 1], [1, 0]] {
        let [first, last] = order.map(|number: usize| parts[number].frame());
        let left = Bench::new(Plan::default()).run(&[first, last]);
        let header = &left[0][14..38];
        assert_eq!(header[..10], [0x46, 0xb8, 0, 88, 0x12, 0x34, 0, 0, 3, 253]);
        assert_eq!(header[20..], [1, 1, 1, 0]);
        assert_eq!(checksum::internet(header), 0);
        assert_eq!(left[0][38..], bytes(64, 1));
    }
}

#[test]
fn the_fragment_header_of_ipv6_is_taken_out_from_among_others() {
    let mut parts = cut(Family::V6, 7, &bytes(48, 1), &[24, 24]);
    // Hop-by-hop options (pad), then destination options (pad), then the fragment header.
    let headers = [60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0];
    for part in &mut parts {
        part.options = (0, headers.to_vec());
    }
    // RFC 8200, section 4.5: what the fragment header of offset 0 names counts.
    parts[1].protocol = 59;
    for order in [[0, 1], [1, 0]] {
        let [first, last] = order.map(|number: usize| parts[number].frame());
        let left = Bench::new(Plan::default()).run(&[first, last]);
        assert_eq!(left[0][18..20], [0, 64]);
        let expected = [60, 0, 1, 4, 0, 0, 0, 0, 253, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(left[0][54..70], expected);
        assert_eq!(left[0][70..], bytes(48, 1));
    }
}

#[test]
fn a_datagram_is_not_to_be_fragmented_if_its_longest_fragment_was_not() {
    for (flags, expected) in [
        ([0x40, 0x40], 0x40),
        ([0x40, 0], 0x40),
        ([0, 0x40], 0),
        ([0, 0], 0),
    ] {
        let mut parts = cut(Family::V4, 1, &bytes(40, 1), &[32, 8]);
        (parts[0].flags, parts[1].flags) = (flags[0], flags[1]);
        let left = Bench::new(Plan::default()).run(&frames(&parts));
        assert_eq!(left[0][20..22], [expected, 0], "{flags:?}");
    }
}

/// RFC 3168, section 5.3.
#[test]
fn congestion_of_one_fragment_is_that_of_the_datagram_and_mixed_transports_are_dropped() {
    const NOT: u8 = 0;
    const ECT1: u8 = 1;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    for family in FAMILIES {
        for (first, second, expected) in [
            (NOT, NOT, Some(NOT)),
            (ECT0, ECT0, Some(ECT0)),
            (ECT1, ECT1, Some(ECT1)),
            (CE, CE, Some(CE)),
            (ECT0, ECT1, Some(ECT0)),
            (ECT1, ECT0, Some(ECT1)),
            (ECT0, CE, Some(CE)),
            (CE, ECT1, Some(CE)),
            (NOT, ECT0, None),
            (ECT1, NOT, None),
            (NOT, CE, None),
            (CE, NOT, None),
        ] {
            let mut parts = cut(family, 1, &bytes(16, 1), &[8, 8]);
            (parts[0].class, parts[1].class) = (0x50 | first, 0x50 | second);
            let mut bench = Bench::new(Plan::default());
            let left = bench.run(&frames(&parts));
            let class = left.first().map(|frame| match family {
                Family::V4 => frame[15],
                Family::V6 => frame[14] << 4 | frame[15] >> 4,
            });
            assert_eq!(
                class,
                expected.map(|codepoint| 0x50 | codepoint),
                "{family:?} {first} {second}"
            );
            let dropped: &[(&str, u64)] = if expected.is_none() { &[("ecn", 2)] } else { &[] };
            assert_eq!(bench.dropped(), dropped);
        }
    }
}

#[test]
fn fragments_of_other_links_vlans_protocols_addresses_and_identifications_are_of_other_datagrams() {
    for family in FAMILIES {
        let parts = cut(family, 77, &bytes(16, 1), &[8, 8]);
        let first = parts[0].frame();
        let mut others: Vec<(usize, Vec<u8>)> = vec![(1, parts[1].frame())];
        let mut changed = |change: &dyn Fn(&mut Fragment)| {
            let mut other = parts[1].clone();
            change(&mut other);
            others.push((0, other.frame()));
        };
        changed(&|other| other.id = 78);
        changed(&|other| other.tags = vec![0x81, 0, 0, 0]);
        changed(&|other| other.tags = vec![0x81, 0, 0, 5]);
        if family == Family::V4 {
            changed(&|other| other.protocol = 252);
        } else {
            changed(&|other| other.id = 77 | 1 << 16);
        }
        changed(&|other| other.ends = [2, 1]);
        changed(&|other| other.ends = [1, 2]);
        let mut bench = Bench::new(Plan::default());
        let count = others.len() as u64;
        let all: Vec<_> = std::iter::once((0, first)).chain(others).collect();
        assert_eq!(bench.runner.run_from(all), Vec::<Vec<u8>>::new());
        assert_eq!(bench.counts.datagrams_waiting.get(), count + 1, "{family:?}");
        assert_eq!(bench.run(&[parts[1].frame()]).len(), 1);
    }
}

#[test]
fn priorities_of_vlans_do_not_separate_fragments_and_padding_is_no_data() {
    let mut parts = cut(Family::V4, 5, &bytes(12, 1), &[8, 4]);
    parts[0].tags = vec![0x88, 0xa8, 0xe0, 100, 0x81, 0, 0, 200];
    parts[1].tags = vec![0x88, 0xa8, 0, 100, 0x81, 0, 0x10, 200];
    let padded = frames(&parts).into_iter().map(|mut frame| {
        frame.resize(60, 0xaa);
        frame
    });
    let left = Bench::new(Plan::default()).run(&padded.collect::<Vec<_>>());
    assert_eq!(left[0][12..20], [0x88, 0xa8, 0xe0, 100, 0x81, 0, 0, 200]);
    assert_eq!(left[0][42..], bytes(12, 1));
}

#[test]
fn whole_datagrams_pass_unchanged_also_with_a_fragment_header() {
    let mut bench = Bench::new(Plan::default());
    for family in FAMILIES {
        let whole = vec![Fragment::new(family, 1, 0, false, &bytes(20, 1)).frame()];
        assert_eq!(bench.run(&whole), whole);
    }
    assert_eq!(bench.counts.fragments.get(), 0);
}

#[test]
fn a_datagram_of_the_longest_length_is_made_and_a_longer_one_is_not() {
    for (family, longest) in [(Family::V4, 65_515), (Family::V6, 65_535)] {
        for (length, is_made) in [(longest, true), (longest + 1, false)] {
            let whole = bytes(length, 9);
            let (head, tail) = whole.split_at(64_000);
            let mut bench = Bench::new(Plan::default());
            let parts = [
                Fragment::new(family, 1, 0, true, head).frame(),
                Fragment::new(family, 1, 64_000, false, tail).frame(),
            ];
            let left = bench.run(&parts);
            assert_eq!(left.len(), usize::from(is_made), "{family:?} {length}");
            if is_made {
                assert!(data(&left[0]) == whole);
            } else {
                assert!(bench.counts.too_long.get() > 0, "{:?}", bench.dropped());
            }
        }
    }
}
