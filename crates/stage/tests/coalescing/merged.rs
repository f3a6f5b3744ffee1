//! What is merged, and into what.

use super::{Tcp, coalesced, segment};
use corelane_stage::Merged;
use corelane_stage::coalescing::{Acknowledgments, Grouping, Plan, Push};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// `count` segments of each of `flows`, one of each flow after the other.
fn interleaved(v6: bool, flows: u16, count: u32) -> Vec<Tcp> {
    let of =
        |number: u32| (0..flows).map(move |flow| segment(v6, 1024 + flow, 100 * number, &[flow as u8; 100]));
    (0..count).flat_map(of).collect()
}

#[test]
fn a_merged_frame_has_the_headers_of_the_first_and_all_bytes() {
    for v6 in [false, true] {
        let mut batch = interleaved(v6, 1, 4);
        batch[3].payload = b"the end".to_vec();
        batch[3].tcp.psh = true;
        let ran = coalesced(Plan::default(), &batch);
        let mut whole = batch[0].clone();
        whole.payload = batch.iter().flat_map(|segment| segment.payload.clone()).collect();
        whole.tcp.psh = true;
        assert_eq!(ran.frames, [whole.frame()], "also its length and checksums");
        let merged = Merged {
            segment_bytes: 100,
            same_identification: false,
        };
        assert_eq!(ran.merged, [Some(merged)]);
        assert_eq!((ran.counts.segments.get(), ran.counts.aggregations.get()), (4, 1));
    }
}

#[test]
fn segments_of_odd_length_are_summed_right() {
    for v6 in [false, true] {
        let mut batch = interleaved(v6, 1, 5);
        for (number, segment) in (0..).zip(&mut batch) {
            segment.payload = (0..333)
                .map(|byte| (byte as u8).wrapping_mul(7 + number as u8))
                .collect();
            segment.tcp.sequence_number = 333 * number;
        }
        let ran = coalesced(Plan::default(), &batch);
        let mut whole = batch[0].clone();
        whole.payload = batch.iter().flat_map(|segment| segment.payload.clone()).collect();
        assert_eq!(ran.frames, [whole.frame()]);
    }
}

#[test]
fn a_sorted_batch_merges_what_a_list_of_eight_has_forgotten() {
    for v6 in [false, true] {
        let batch = interleaved(v6, 1000, 4);
        let aggregations = |grouping| {
            let ran = coalesced(
                Plan {
                    grouping,
                    ..Plan::default()
                },
                &batch,
            );
            assert_eq!(ran.counts.segments.get(), 4000);
            assert_eq!(ran.frames.len() as u64, ran.counts.aggregations.get());
            ran.counts.aggregations.get()
        };
        assert_eq!(aggregations(Grouping::Sorted), 1000);
        assert_eq!(aggregations(Grouping::List), 4000);
        let few = interleaved(v6, 8, 4);
        let ran = coalesced(
            Plan {
                grouping: Grouping::List,
                ..Plan::default()
            },
            &few,
        );
        assert_eq!(ran.frames.len(), 8, "a list remembers eight");
    }
}

#[test]
fn merged_frames_leave_in_the_order_of_their_first_segments() {
    let mut batch = interleaved(false, 3, 2);
    batch.insert(1, segment(true, 9, 0, b"alone"));
    let ran = coalesced(Plan::default(), &batch);
    let ports: Vec<u16> = ran.frames.iter().map(|frame| port(frame)).collect();
    assert_eq!(ports, [1024, 9, 1025, 1026]);
}

fn port(frame: &[u8]) -> u16 {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    assert!(matches!(sliced.net, Some(NetSlice::Ipv4(_) | NetSlice::Ipv6(_))));
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => tcp.source_port(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn push_ends_a_merged_frame_or_does_not() {
    let mut batch = interleaved(false, 1, 4);
    batch[1].tcp.psh = true;
    let frames = |push| {
        coalesced(
            Plan {
                push,
                ..Plan::default()
            },
            &batch,
        )
        .frames
        .len()
    };
    assert_eq!((frames(Push::End), frames(Push::Merge)), (2, 1));
    batch[0].tcp.psh = true;
    let ran = coalesced(Plan::default(), &batch);
    assert_eq!(
        ran.frames[0],
        batch[0].frame(),
        "nothing follows the first either"
    );
    assert_eq!(ran.frames.len(), 3);
}

#[test]
fn acknowledgments_pass_or_are_replaced_by_those_that_acknowledge_more() {
    for v6 in [false, true] {
        let ack = |number: u32| {
            let mut ack = segment(v6, 1024, 500, b"");
            ack.tcp.acknowledgment_number = number;
            ack
        };
        // The second 200 is a duplicate: the sender counts those.
        let batch = [100, 200, 200, 300, 400].map(ack);
        let kept = coalesced(Plan::default(), &batch);
        assert_eq!(kept.frames, batch.clone().map(|segment| segment.frame()));
        assert_eq!(kept.counts.empty.get(), 5);
        let merging = Plan {
            acks: Acknowledgments::Merge,
            ..Plan::default()
        };
        let merged = coalesced(merging, &batch);
        assert_eq!(merged.frames, [200, 400].map(|number| ack(number).frame()));
        assert_eq!(merged.counts.acknowledgment.get(), 1);
    }
}

#[test]
fn equal_identifications_of_datagrams_that_must_not_be_fragmented_are_merged() {
    let batch: Vec<Tcp> = interleaved(false, 1, 3)
        .into_iter()
        .map(|mut segment| {
            segment.v4().identification = 0;
            segment
        })
        .collect();
    let ran = coalesced(Plan::default(), &batch);
    assert!(matches!(
        ran.merged[..],
        [Some(Merged {
            same_identification: true,
            ..
        })]
    ));
}
