//! Inputs that broke others: each costs bounded memory, is counted under a name, and honest traffic beside it passes.

use super::Bench;
use super::frames::{FAMILIES, Family, Fragment, UDP, bytes, data};
use corelane_stage::reassembly::{Overlap, Plan};
use std::time::Duration;

/// Runs fragments, each in a batch of its own; between them both halves of an honest datagram of another sender. All of the
/// honest ones leave, and memory stays within the limit.
fn beside_honest(bench: &mut Bench, family: Family, memory: u64, hostile: impl Iterator<Item = Fragment>) {
    let half = bytes(64, 5);
    let honest = |id: u32, offset: usize| {
        let part = Fragment::new(family, id, offset, offset == 0, &half);
        Fragment {
            ends: [77, 1],
            ..part
        }
        .frame()
    };
    let whole = [&half[..], &half[..]].concat();
    for (id, fragment) in (0..).zip(hostile) {
        assert_eq!(
            bench.run(&[honest(id, 0), fragment.frame()]).len(),
            0,
            "{fragment:?}"
        );
        assert!(
            bench.counts.memory.get() <= memory,
            "{}",
            bench.counts.memory.get()
        );
        let left = bench.run(&[honest(id, 64)]);
        assert_eq!(left.iter().map(|frame| data(frame)).collect::<Vec<_>>(), [&whole]);
    }
}

fn plan(memory: u64) -> Plan {
    Plan {
        memory,
        ..Plan::default()
    }
}

/// The second fragment lies within the first, and claims to be the last (CA-1997-28).
#[test]
fn teardrop() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let parts = (0..100).flat_map(|id| {
            [
                Fragment::new(family, id, 0, true, &[1; 40]),
                Fragment::new(family, id, 24, false, &[2; 8]),
            ]
        });
        beside_honest(&mut bench, family, 4 << 20, parts);
        assert_eq!(bench.dropped(), [("contradicts_end", 200)]);
    }
}

#[test]
fn first_fragments_that_nothing_follows_exhaust_neither_memory_nor_datagrams() {
    for family in FAMILIES {
        let first = |id| Fragment::new(family, id, 0, true, &[1; 1024]);
        let mut bench = Bench::new(plan(64 << 10));
        beside_honest(&mut bench, family, 64 << 10, (0..1000).map(first));
        let [("no_memory", dropped)] = bench.dropped()[..] else {
            panic!("{:?}", bench.dropped())
        };
        assert_eq!(dropped + bench.counts.waiting.get(), 1000);

        let mut bench = Bench::new(Plan {
            datagrams: 100,
            ..Plan::default()
        });
        beside_honest(&mut bench, family, 4 << 20, (0..1000).map(first));
        // Of the hundred places the honest sender takes one at a time.
        let counts = &bench.counts;
        assert_eq!(counts.datagrams_waiting.get(), 99);
        assert_eq!(bench.dropped(), [("too_many_datagrams", 901)]);
    }
}

/// A datagram takes memory by what has arrived of it, not by where its end is.
#[test]
fn last_fragments_first_take_only_their_own_memory() {
    for family in FAMILIES {
        let mut bench = Bench::new(plan(1 << 20));
        let last = |id| Fragment::new(family, id, 65_000, false, &[1; 8]);
        beside_honest(&mut bench, family, 1 << 20, (0..2000).map(last));
        assert_eq!(bench.dropped(), []);
        assert!(bench.counts.memory.get() <= 2000 * 512);
    }
}

/// Many small fragments with gaps (CVE-2018-5391).
#[test]
fn many_small_fragments_with_gaps_are_dropped_at_the_limit() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let parts =
            (0..4000).map(|number: usize| Fragment::new(family, 1, 65_000 - 16 * number, true, &[1; 8]));
        beside_honest(&mut bench, family, 4 << 20, parts);
        let dropped = bench.dropped();
        assert_eq!(dropped, [("too_many_fragments", 4000 / 129 * 129)]);
        assert!(bench.counts.waiting.get() <= 128);
    }
}

#[test]
fn as_many_fragments_as_permitted_and_the_last_missing_one_make_a_datagram() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan {
            fragments: 3,
            ..Plan::default()
        });
        let parts: Vec<_> = (0..4)
            .map(|number| Fragment::new(family, 1, 8 * number, number < 3, &[1; 8]).frame())
            .collect();
        assert_eq!(bench.run(&parts).len(), 1);
        let with_gap = [&parts[..2], &parts[3..]].concat();
        assert_eq!(bench.run(&with_gap).len(), 0);
        let behind = Fragment::new(family, 1, 40, true, &[1; 8]).frame();
        assert_eq!(bench.run(&[behind]).len(), 0);
        assert_eq!(bench.dropped(), [("contradicts_end", 4)]);
        let gaps = (1..5).map(|number| Fragment::new(family, 2, 16 * number, true, &[1; 8]).frame());
        let gaps: Vec<_> = gaps.collect();
        assert_eq!(bench.run(&gaps).len(), 0);
        assert_eq!(bench.dropped()[1..], [("too_many_fragments", 4)]);
    }
}

#[test]
fn a_length_that_is_no_multiple_of_8_is_cut_in_ipv4_and_refused_in_ipv6() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let odd = Fragment::new(family, 1, 0, true, &[1; 13]).frame();
        let rest = Fragment::new(family, 1, 8, false, &[2; 3]).frame();
        let left = bench.run(&[odd, rest]);
        match family {
            Family::V4 => {
                assert_eq!(data(&left[0]), [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2]);
                let short = Fragment::new(family, 2, 8, true, &[1; 7]).frame();
                assert_eq!(bench.run(&[short]).len(), 0);
                assert_eq!(bench.dropped(), [("empty", 1)]);
            }
            Family::V6 => {
                assert_eq!(left.len(), 0);
                assert_eq!(bench.dropped(), [("unaligned", 1)]);
            }
        }
    }
}

#[test]
fn a_fragment_without_data_drops_its_datagram() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let first = Fragment::new(family, 1, 0, true, &[1; 8]).frame();
        let empty = Fragment::new(family, 1, 8, false, &[]).frame();
        assert_eq!(bench.run(&[empty.clone(), first.clone(), empty]).len(), 0);
        assert_eq!(bench.dropped(), [("empty", 3)]);
    }
    let mut trimming = Bench::new(Plan {
        overlap_ipv4: Overlap::Trim,
        ..Plan::default()
    });
    let part = |offset, more, data: &[u8]| Fragment::new(Family::V4, 1, offset, more, data).frame();
    let parts = [part(0, true, &[1; 8]), part(8, false, &[]), part(8, false, &[2])];
    assert_eq!(trimming.run(&parts).len(), 1, "FreeBSD drops it alone");
}

/// "Ping of death": the last fragment ends behind the longest datagram.
#[test]
fn data_behind_the_longest_datagram_is_dropped() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let beyond = (0..100).map(|id| Fragment::new(family, id, 65_528, false, &[1; 100]));
        beside_honest(&mut bench, family, 4 << 20, beyond);
        assert_eq!(bench.dropped(), [("too_long", 100)]);
    }
}

/// An identification that is used again before its datagram is whole gives no mixed datagram.
#[test]
fn a_reused_identification_gives_no_mixture() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan {
            timeout: 10.0,
            ..Plan::default()
        });
        let part = |offset, seed| Fragment::new(family, 1, offset, offset == 0, &bytes(64, seed)).frame();
        bench.run(&[part(0, 1)]);
        bench.runner.elapsed += Duration::from_secs(11);
        let left = bench.run(&[part(0, 2), part(64, 2)]);
        assert_eq!(data(&left[0]), [bytes(64, 2), bytes(64, 2)].concat());
        assert_eq!(bench.dropped(), [("timeout", 1)]);
    }
}

#[test]
fn what_waits_too_long_is_dropped_also_when_no_frame_comes() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let first = |id| Fragment::new(family, id, 0, true, &[1; 8]).frame();
        bench.run(&[first(1)]);
        bench.runner.elapsed += Duration::from_secs(20);
        bench.run(&[first(2)]);
        bench.runner.elapsed += Duration::from_secs(10);
        bench.run(&[]);
        assert_eq!(bench.dropped(), [], "not yet");
        bench.runner.elapsed += Duration::from_millis(1);
        bench.run(&[]);
        assert_eq!(bench.dropped(), [("timeout", 1)]);
        assert_eq!(bench.counts.waiting.get(), 1);
        assert!(bench.runner.end().is_empty());
        assert_eq!((bench.counts.ended.get(), bench.counts.waiting.get()), (1, 0));
    }
}

/// The headers may be spread over fragments of IPv4 (RFC 1858): the stages behind see them only when they are whole. The
/// first fragment of IPv6 has all of them (RFC 8200, section 4.5).
#[test]
fn tiny_first_fragments_hide_nothing() {
    for family in FAMILIES {
        let mut bench = Bench::new(Plan::default());
        let tcp = |offset, more| Fragment {
            protocol: 6,
            ..Fragment::new(
                family,
                1,
                offset,
                more,
                &bytes(24, 1)[offset..][..if more { 8 } else { 24 - offset }],
            )
        };
        let left = bench.run(&[tcp(0, true).frame(), tcp(8, false).frame()]);
        match family {
            Family::V4 => assert_eq!(data(&left[0]), bytes(24, 1)),
            Family::V6 => {
                assert_eq!(left.len(), 0);
                assert_eq!(bench.dropped(), [("tiny_first", 1)]);
            }
        }
    }
    // The first fragment ends with an extension header.
    let mut bench = Bench::new(Plan::default());
    let options = Fragment {
        protocol: 60,
        ..Fragment::new(Family::V6, 1, 0, true, &[UDP, 0, 1, 4, 0, 0, 0, 0])
    };
    bench.run(&[options.frame()]);
    assert_eq!(bench.dropped(), [("tiny_first", 1)]);
}

#[test]
fn a_fragment_header_within_fragments_is_refused() {
    let mut bench = Bench::new(Plan::default());
    let inner = [
        UDP, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let nested = |offset: usize, more| Fragment {
        protocol: 44,
        ..Fragment::new(
            Family::V6,
            1,
            offset,
            more,
            &inner[offset..][..if more { 16 } else { 8 }],
        )
    };
    assert_eq!(
        bench
            .run(&[nested(0, true).frame(), nested(16, false).frame()])
            .len(),
        0
    );
    assert_eq!(bench.dropped(), [("nested", 2)]);
}

#[test]
fn what_a_capture_has_only_in_part_is_dropped() {
    for family in FAMILIES {
        let whole = Fragment::new(family, 1, 0, true, &[1; 64]).frame();
        let mut bench = Bench::new(Plan::default());
        for length in whole.len() - 64..whole.len() {
            bench.run(&[whole[..length].to_vec()]);
        }
        assert_eq!(bench.dropped(), [("truncated", 64)]);
        assert_eq!(bench.run(&[whole]).len(), 0);
        assert_eq!(bench.counts.waiting.get(), 1);
    }
}

/// A limit below one fragment refuses it, and does not drop others for it.
#[test]
fn a_fragment_that_memory_cannot_hold_at_all_is_dropped_alone() {
    for family in FAMILIES {
        let mut bench = Bench::new(plan(1024));
        bench.run(&[Fragment::new(family, 1, 0, true, &[1; 8]).frame()]);
        bench.run(&[Fragment::new(family, 2, 0, true, &[1; 1024]).frame()]);
        assert_eq!(bench.dropped(), [("no_memory", 1)]);
        assert_eq!(bench.counts.waiting.get(), 1);
    }
}

/// Any bit of the header may have been changed: the identification, the offset, an address.
#[test]
fn a_fragment_of_ipv4_whose_header_was_changed_is_in_no_datagram() {
    let (mut bench, mut changed) = (Bench::new(Plan::default()), 0);
    let first = Fragment::new(Family::V4, 1, 0, true, &[1; 8]).frame();
    for bit in 8..8 * 20 {
        let mut frame = first.clone();
        frame[14 + bit / 8] ^= 1 << (bit % 8);
        changed += bench.run(&[frame]).len() as u64;
    }
    assert_eq!(bench.counts.waiting.get(), 0);
    // Without the more-fragments flag, or with a length that cannot be, it is none, and passes.
    assert_eq!(changed, 2);
    let last = Fragment::new(Family::V4, 1, 8, false, &[2; 8]).frame();
    assert_eq!(bench.run(&[first, last]).len(), 1);
}

/// Limits take memory when it is used, not before.
#[test]
fn limits_may_be_as_large_as_numbers_are() {
    let mut bench = Bench::new(Plan {
        memory: u64::MAX,
        datagrams: u64::MAX,
        fragments: u64::MAX,
        ..Plan::default()
    });
    for family in FAMILIES {
        let part = |offset, more| Fragment::new(family, 1, offset, more, &[1; 8]).frame();
        assert_eq!(bench.run(&[part(0, true), part(8, false)]).len(), 1);
    }
}
