//! What must never be merged, a test for each rule: the frames leave as they came, and are counted under the reason's name.

use super::{Tcp, coalesced, coalesced_frames, segment};
use corelane_measure::counter::Counter;
use corelane_rss::{Key, Toeplitz};
use corelane_stage::coalescing::{Counts, Plan};
use corelane_stage::counts::{Class, StageCounts};
use etherparse::IpHeaders;

const FAMILIES: [bool; 2] = [false, true];

/// Three segments of 100 bytes that follow each other.
fn three(v6: bool) -> [Tcp; 3] {
    [0, 1, 2].map(|number| segment(v6, 1024, 1000 + 100 * number, &[number as u8; 100]))
}

/// Changes the second of three segments: it is not merged onto the first, nor, as it is changed, the third onto it, and
/// both are counted.
fn not_merged(v6: bool, change: impl Fn(&mut Tcp), reason: impl Fn(&Counts) -> &Counter) {
    let mut batch = three(v6);
    change(&mut batch[1]);
    let ran = coalesced(Plan::default(), &batch);
    let frames = batch.map(|segment| segment.frame());
    assert_eq!(ran.frames, frames, "IPv6: {v6}");
    assert_eq!(ran.merged, [None; 3]);
    assert!(reason(&ran.counts).get() > 0, "{:?}", ran.counts);
    assert_eq!(
        reasons(&ran.counts),
        reason(&ran.counts).get(),
        "{:?}",
        ran.counts
    );
}

/// The sum of all counts but those of what left.
fn reasons(counts: &Counts) -> u64 {
    let mut sum = 0;
    counts.each(&mut |count| {
        sum += if count.class == Class::Counted {
            count.value
        } else {
            0
        }
    });
    sum
}

#[test]
fn three_segments_that_differ_in_nothing_are_merged() {
    for v6 in FAMILIES {
        let ran = coalesced(Plan::default(), &three(v6));
        assert_eq!(ran.frames.len(), 1, "what follows could not fail otherwise");
        assert_eq!(reasons(&ran.counts), 0);
    }
}

#[test]
fn syn_fin_rst_and_urg() {
    let changes: [fn(&mut Tcp); 4] = [
        |segment| segment.tcp.syn = true,
        |segment| segment.tcp.fin = true,
        |segment| segment.tcp.rst = true,
        |segment| segment.tcp.urg = true,
    ];
    for (v6, change) in FAMILIES
        .into_iter()
        .flat_map(|v6| changes.map(|change| (v6, change)))
    {
        not_merged(v6, change, |counts| &counts.flags);
    }
}

#[test]
fn an_urgent_pointer() {
    for v6 in FAMILIES {
        not_merged(
            v6,
            |segment| segment.tcp.urgent_pointer = 1,
            |counts| &counts.flags,
        );
    }
}

#[test]
fn echoes_of_congestion_and_a_segment_without_ack() {
    let changes: [fn(&mut Tcp); 4] = [
        |segment| segment.tcp.ece = true,
        |segment| segment.tcp.cwr = true,
        |segment| segment.tcp.ns = true,
        |segment| segment.tcp.ack = false,
    ];
    for (v6, change) in FAMILIES
        .into_iter()
        .flat_map(|v6| changes.map(|change| (v6, change)))
    {
        not_merged(v6, change, |counts| &counts.flags);
    }
}

#[test]
fn reserved_bits() {
    for v6 in FAMILIES {
        let mut frames = three(v6).map(|segment| (0, segment.frame()));
        let at = if v6 { 14 + 40 } else { 14 + 20 } + 12;
        frames[1].1[at] |= 1 << 3;
        let ran = coalesced_frames(Plan::default(), frames.to_vec(), |_| ());
        assert_eq!(ran.frames, frames.map(|(_, frame)| frame));
        assert_eq!(ran.counts.flags.get(), 1);
    }
}

#[test]
fn a_marked_segment_with_an_unmarked_one() {
    not_merged(
        false,
        |segment| segment.v4().ecn = etherparse::IpEcn::THREE,
        |counts| &counts.tos,
    );
    not_merged(
        true,
        |segment| segment.v6().0.traffic_class = 3,
        |counts| &counts.tos,
    );
}

#[test]
fn another_type_of_service_or_flow_label() {
    not_merged(
        false,
        |segment| segment.v4().dscp = 1.try_into().unwrap(),
        |counts| &counts.tos,
    );
    not_merged(
        true,
        |segment| segment.v6().0.traffic_class = 4,
        |counts| &counts.tos,
    );
    not_merged(
        true,
        |segment| segment.v6().0.flow_label = 9.try_into().unwrap(),
        |counts| &counts.tos,
    );
}

#[test]
fn another_time_to_live() {
    not_merged(
        false,
        |segment| segment.v4().time_to_live = 63,
        |counts| &counts.ttl,
    );
    not_merged(
        true,
        |segment| segment.v6().0.hop_limit = 63,
        |counts| &counts.ttl,
    );
}

#[test]
fn ip_options_and_extension_headers() {
    not_merged(
        false,
        |segment| segment.v4().options = [1, 1, 1, 1].into(),
        |counts| &counts.headers,
    );
    let extended = |segment: &mut Tcp| {
        let (header, extensions) = segment.v6();
        header.next_header = etherparse::IpNumber::IPV6_DESTINATION_OPTIONS;
        let padding = etherparse::Ipv6RawExtHeader::new_raw(etherparse::IpNumber::TCP, &[1, 4, 0, 0, 0, 0]);
        extensions.destination_options = Some(padding.unwrap());
    };
    not_merged(true, extended, |counts| &counts.headers);
}

/// Makes a segment a fragment of a datagram.
fn as_fragment(segment: &mut Tcp) {
    if segment.is_v6() {
        let (header, extensions) = segment.v6();
        header.next_header = etherparse::IpNumber::IPV6_FRAGMENTATION_HEADER;
        let offset = 1.try_into().unwrap();
        let fragment = etherparse::Ipv6FragmentHeader::new(etherparse::IpNumber::TCP, offset, false, 1);
        extensions.fragment = Some(fragment);
    } else {
        segment.v4().more_fragments = true;
    }
}

/// The first and the third follow each other; between them is a fragment, changed.
fn around_fragment(v6: bool, change: impl Fn(&mut Tcp)) -> [Tcp; 3] {
    let mut batch = three(v6);
    as_fragment(&mut batch[1]);
    change(&mut batch[1]);
    batch[2] = segment(v6, 1024, 1100, &[2; 100]);
    batch
}

#[test]
fn fragments_and_what_is_on_both_sides_of_them() {
    for v6 in FAMILIES {
        // The ports of a fragment are not known: it may be of the flow.
        let batch = around_fragment(v6, |_| ());
        let ran = coalesced(Plan::default(), &batch);
        assert_eq!(ran.frames, batch.map(|segment| segment.frame()));
        let counts = &ran.counts;
        assert_eq!((counts.fragments.get(), counts.behind_fragment.get()), (1, 1));
        assert_eq!((counts.segments.get(), counts.aggregations.get()), (2, 2));
    }
}

#[test]
fn but_a_fragment_between_other_addresses_or_of_another_link_ends_nothing() {
    type Change = fn(&mut Tcp);
    let changes: [Change; 3] = [
        |fragment| match &mut fragment.ip {
            IpHeaders::Ipv4(header, _) => header.source[3] += 1,
            IpHeaders::Ipv6(header, _) => header.source[15] += 1,
        },
        // The other direction.
        |fragment| match &mut fragment.ip {
            IpHeaders::Ipv4(header, _) => std::mem::swap(&mut header.source, &mut header.destination),
            IpHeaders::Ipv6(header, _) => std::mem::swap(&mut header.source, &mut header.destination),
        },
        |fragment| fragment.link = 1,
    ];
    for (v6, change) in FAMILIES
        .into_iter()
        .flat_map(|v6| changes.map(|change| (v6, change)))
    {
        let batch = around_fragment(v6, change);
        let ran = coalesced(Plan::default(), &batch);
        assert_eq!(
            (ran.frames.len(), &ran.frames[1]),
            (2, &batch[1].frame()),
            "IPv6: {v6}"
        );
        assert_eq!((ran.counts.segments.get(), ran.counts.aggregations.get()), (2, 1));
    }
}

#[test]
fn what_was_made_of_fragments() {
    for v6 in FAMILIES {
        let frames = three(v6).map(|segment| (0, segment.frame()));
        let ran = coalesced_frames(Plan::default(), frames.to_vec(), |work| work.set_cut_as(1, 7));
        assert_eq!(ran.frames, frames.map(|(_, frame)| frame));
        assert_eq!(ran.counts.headers.get(), 1);
    }
}

#[test]
fn a_gap_a_repetition_and_a_reordering() {
    for v6 in FAMILIES {
        for sequence in [1000, 1099, 1101, 1200, 900, 1100_u32.wrapping_add(1 << 31)] {
            not_merged(
                v6,
                |segment| segment.tcp.sequence_number = sequence,
                |counts| &counts.not_next,
            );
        }
    }
}

#[test]
fn another_acknowledgment_or_window() {
    for v6 in FAMILIES {
        not_merged(
            v6,
            |segment| segment.tcp.acknowledgment_number += 1,
            |counts| &counts.acknowledgment,
        );
        not_merged(
            v6,
            |segment| segment.tcp.window_size += 1,
            |counts| &counts.window,
        );
    }
}

#[test]
fn other_tcp_options() {
    for v6 in FAMILIES {
        let stamped = |segment: &mut Tcp| {
            let later = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 6];
            segment.tcp.set_options_raw(&later).unwrap();
        };
        not_merged(v6, stamped, |counts| &counts.options);
        let none = |segment: &mut Tcp| segment.tcp.set_options_raw(&[]).unwrap();
        not_merged(v6, none, |counts| &counts.options);
    }
}

#[test]
fn identifications_that_do_not_follow_and_another_flag_of_fragmentation() {
    not_merged(
        false,
        |segment| segment.v4().identification += 7,
        |counts| &counts.identification,
    );
    not_merged(
        false,
        |segment| segment.v4().dont_fragment = false,
        |counts| &counts.identification,
    );
}

#[test]
fn equal_identifications_without_dont_fragment() {
    let batch = three(false).map(|mut segment| {
        segment.v4().dont_fragment = false;
        segment.v4().identification = 5;
        segment
    });
    let ran = coalesced(Plan::default(), &batch);
    assert_eq!(
        ran.frames.len(),
        3,
        "RFC 6864: only atomic datagrams may repeat one"
    );
    assert_eq!(ran.counts.identification.get(), 2);
}

#[test]
fn other_ethernet_addresses_or_tags() {
    for v6 in FAMILIES {
        not_merged(v6, |segment| segment.macs[3] = 9, |counts| &counts.link);
        not_merged(v6, |segment| segment.tags = vec![5], |counts| &counts.link);
    }
}

#[test]
fn segments_of_two_links() {
    for v6 in FAMILIES {
        not_merged(v6, |segment| segment.link = 1, |counts| &counts.link);
    }
}

#[test]
fn other_flows() {
    for v6 in FAMILIES {
        let batch =
            [0_u16, 1, 2].map(|number| segment(v6, 1024 + number, 1000 + 100 * u32::from(number), &[0; 100]));
        let ran = coalesced(Plan::default(), &batch);
        assert_eq!(ran.frames, batch.map(|segment| segment.frame()));
        assert_eq!((ran.counts.aggregations.get(), reasons(&ran.counts)), (3, 0));
    }
}

#[test]
fn another_flow_with_the_same_hash() {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let hash = |tuple: u64| {
        let [source, ports] = [(tuple >> 32) as u32, tuple as u32].map(u32::to_be_bytes);
        toeplitz.hash_input(&[source, [0; 4], ports].concat())
    };
    // Toeplitz is linear: of 33 bits some, flipped, do not change the hash of 32 bits.
    let mut reduced: Vec<(u32, u64)> = Vec::new();
    let flipped = (0..64).map(|bit| 1_u64 << bit).find_map(|bits| {
        let start = (hash(bits), bits);
        let (rest, bits) = reduced.iter().fold(start, |(hash, bits), (other, others)| {
            match hash & 1 << (31 - other.leading_zeros()) {
                0 => (hash, bits),
                _ => (hash ^ other, bits ^ others),
            }
        });
        if rest != 0 {
            reduced.push((rest, bits));
        }
        (rest == 0).then_some(bits)
    });
    let flipped = flipped.expect("64 bits, of which 32 are independent");
    let mut batch = three(false);
    let source = u32::from_be_bytes(batch[1].v4().source) ^ (flipped >> 32) as u32;
    batch[1].v4().source = source.to_be_bytes();
    batch[1].tcp.source_port ^= (flipped >> 16) as u16;
    batch[1].tcp.destination_port ^= flipped as u16;
    let ran = coalesced(Plan::default(), &batch);
    assert_eq!(ran.frames, batch.map(|segment| segment.frame()));
    assert_eq!((ran.counts.other_flow.get(), reasons(&ran.counts)), (2, 2));
}

#[test]
fn a_wrong_checksum() {
    for v6 in FAMILIES {
        let whole = three(v6).map(|segment| (0, segment.frame()));
        let of_ip = (!v6).then_some(14 + 10);
        for (number, at) in [0, 1].into_iter().flat_map(|number| {
            let last = whole[number].1.len() - 1;
            of_ip.into_iter().chain([last]).map(move |at| (number, at))
        }) {
            let mut frames = whole.clone();
            frames[number].1[at] ^= 1;
            let ran = coalesced_frames(Plan::default(), frames.to_vec(), |_| ());
            let alone = [2, 3][number];
            assert_eq!(ran.frames.len(), alone, "behind the first, two are merged");
            assert!(
                ran.frames.contains(&frames[number].1),
                "its receiver decides on it"
            );
            assert!(ran.counts.checksum.get() > 0);
        }
    }
}

#[test]
fn a_shorter_segment_before_or_a_longer_one_behind() {
    for v6 in FAMILIES {
        let mut batch = three(v6);
        batch[1].payload.truncate(50);
        batch[2].tcp.sequence_number = 1150;
        let ran = coalesced(Plan::default(), &batch);
        assert_eq!(ran.frames.len(), 2, "the shorter one is the last of the first");
        assert_eq!(ran.frames[1], batch[2].frame());
        assert_eq!(ran.counts.size.get(), 1);
        let mut batch = three(v6);
        batch[1].payload.push(0);
        let ran = coalesced(Plan::default(), &batch[..2]);
        assert_eq!((ran.frames.len(), ran.counts.size.get()), (2, 1));
    }
}

#[test]
fn more_than_a_packet_has_room_for() {
    for v6 in FAMILIES {
        let batch: Vec<Tcp> = (0..70)
            .map(|number| segment(v6, 1024, 100 * number, &[number as u8; 1000]))
            .map(|mut segment| {
                segment.tcp.sequence_number *= 10;
                segment
            })
            .collect();
        let ran = coalesced(Plan::default(), &batch);
        let lengths: Vec<usize> = ran.frames.iter().map(Vec::len).collect();
        let headers = 14 + if v6 { 40 } else { 20 } + 32;
        assert_eq!(lengths, [headers + 65_000, headers + 5_000]);
        assert_eq!(ran.counts.size.get(), 1);
    }
}

#[test]
fn a_frame_with_bytes_behind_its_packet_or_cut_short() {
    for v6 in FAMILIES {
        let changes: [fn(&mut Vec<u8>); 2] = [|frame| frame.push(0), |frame| frame.truncate(120)];
        for change in changes {
            let mut frames = three(v6).map(|segment| (0, segment.frame()));
            change(&mut frames[1].1);
            let ran = coalesced_frames(Plan::default(), frames.to_vec(), |_| ());
            assert_eq!(ran.frames, frames.map(|(_, frame)| frame));
            assert_eq!(ran.counts.headers.get(), 1);
        }
    }
}

#[test]
fn what_is_dropped_and_what_is_not_tcp() {
    let mut udp = three(false)[1].frame();
    udp[14 + 9] = 17;
    let frames = three(false).map(|segment| segment.frame());
    let batch = vec![(0, frames[0].clone()), (0, udp.clone()), (0, frames[1].clone())];
    let dropped = Counter::new();
    let ran = coalesced_frames(Plan::default(), batch, |work| work.drop(2, &dropped));
    assert_eq!(ran.frames, [frames[0].clone(), udp]);
}
