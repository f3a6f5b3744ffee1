//! What came out of different tunnels is not of one datagram, nor of one flow, whatever its addresses are.

use super::esp::{self, KEYS, Sender};
use super::frames::{self, V4};
use crate::common::Runner;
use corelane_packet::checksum;
use corelane_rss::{Bucket, Key};
use corelane_stage::counts::Class;
use corelane_stage::{Context, StagePlans, TableStage, Verdict, Way, WayCounts};
use std::sync::Arc;

/// The way that these stages make, and its counts.
fn way(plans: &StagePlans) -> (Runner<Way>, WayCounts) {
    let context = Context {
        bucket: Bucket::new(0),
        buckets: 1,
        seed: 7,
        key: Key::VERIFICATION,
    };
    let (counts, tables) = (WayCounts::new(plans), Arc::default());
    let tables = TableStage::new(Vec::new(), Verdict::Pass, Verdict::Pass, tables);
    (
        Runner::new(Way::new(plans, &context, None, tables, &counts)),
        counts,
    )
}

/// Fragments of 8 bytes of one datagram.
fn fragments() -> [Vec<u8>; 2] {
    [(0x2000, [1; 8]), (1, [2; 8])].map(|(fragment, data)| {
        V4 {
            fragment,
            ..V4::SUITE
        }
        .packet(&data)
    })
}

fn outer(ends: [u8; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    V4 {
        source: [10, 0, 0, ends[0]].into(),
        destination: [10, 0, 0, ends[1]].into(),
        protocol,
        ..V4::SUITE
    }
    .frame(payload)
}

fn vxlan(vni: u8, packet: &[u8]) -> Vec<u8> {
    let frame = frames::ethernet(&[], 0x0800, packet);
    frames::udp(50_000, 4789, &[&[8, 0, 0, 0, 0, 0, vni, 0], &frame[..]].concat())
}

fn gre(key: u8, packet: &[u8]) -> Vec<u8> {
    [&[0x20, 0, 8, 0, 0, 0, 0, key], packet].concat()
}

fn gre_with_checksum(key: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, key], packet].concat();
    let checksum = checksum::internet(&bytes);
    bytes[4..6].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Puts a packet into a tunnel.
type Into = fn(&[u8]) -> Vec<u8>;

/// How two packets are put into the same tunnel, and into two that differ in one thing.
fn tunnels() -> Vec<[Into; 3]> {
    vec![
        [
            |packet| outer([1, 2], 17, &vxlan(7, packet)),
            |packet| outer([1, 2], 17, &vxlan(7, packet)),
            |packet| outer([1, 2], 17, &vxlan(8, packet)),
        ],
        [
            |packet| outer([1, 2], 47, &gre(7, packet)),
            |packet| outer([1, 2], 47, &gre_with_checksum(7, packet)),
            |packet| outer([1, 2], 47, &gre_with_checksum(8, packet)),
        ],
        [
            |packet| outer([1, 2], 4, packet),
            |packet| outer([1, 2], 4, packet),
            |packet| outer([3, 2], 4, packet),
        ],
        [
            |packet| outer([1, 2], 4, packet),
            |packet| outer([1, 2], 4, packet),
            // Within another one.
            |packet| outer([5, 6], 4, &outer([1, 2], 4, packet)[14..]),
        ],
        [
            |packet| outer([1, 2], 4, packet),
            |packet| outer([1, 2], 4, packet),
            |packet| frames::ethernet(&[], 0x0800, packet),
        ],
        [
            |packet| frames::ethernet(&[], 0x8847, &[&[0, 0, 0x71, 64], packet].concat()),
            // Another time to live.
            |packet| frames::ethernet(&[], 0x8847, &[&[0, 0, 0x71, 63], packet].concat()),
            |packet| frames::ethernet(&[], 0x8847, &[&[0, 0, 0x81, 64], packet].concat()),
        ],
    ]
}

#[test]
fn fragments_of_different_tunnels_do_not_meet() {
    let plans: StagePlans =
        serde_json::from_value(serde_json::json!({ "reassemble": {}, "decapsulate": {} })).unwrap();
    let [first, last] = fragments();
    for (number, [into, same, other]) in tunnels().into_iter().enumerate() {
        for (last, whole) in [(same(&last), 1), (other(&last), 0)] {
            let (mut way, _) = way(&plans);
            let left = way.run(&[into(&first), last]);
            assert_eq!(left.len(), whole, "{number}");
        }
    }
}

#[test]
fn nothing_in_clear_text_completes_a_datagram_that_is_authenticated() {
    let mut plans: StagePlans = serde_json::from_value(serde_json::json!({ "reassemble": {} })).unwrap();
    plans.decapsulate = Some(esp::plan_of(0x100, KEYS[0], false));
    let (mut way, counts) = way(&plans);
    let mut sender = Sender::new(0x100, KEYS[0], false);
    let [first, last] = fragments();
    let [sealed_first, sealed_last] = [&first, &last].map(|packet| esp::in_ipv4(&sender.seal(4, packet)));
    let clear = frames::ethernet(&[], 0x0800, &last);
    assert!(way.run(&[sealed_first, clear]).is_empty());
    assert_eq!(way.run(&[sealed_last]).len(), 1);
    let mut held = 0;
    counts.each(&mut |_, count| {
        held += if count.class == Class::Held {
            count.value
        } else {
            0
        }
    });
    assert_eq!(held, 1, "that in clear text waits alone");
}

#[test]
fn segments_of_different_tunnels_are_not_merged() {
    let plans: StagePlans =
        serde_json::from_value(serde_json::json!({ "decapsulate": {}, "coalesce": {} })).unwrap();
    let segment = |number: u8| {
        let mut segment =
            crate::coalescing::segment(false, 1024, 1000 + 100 * u32::from(number), &[number; 100]);
        segment.v4().identification = number.into();
        segment.frame()[14..].to_vec()
    };
    for (number, [into, same, other]) in tunnels().into_iter().enumerate() {
        for (last, left) in [(same(&segment(1)), 1), (other(&segment(1)), 2)] {
            let (mut way, counts) = way(&plans);
            assert_eq!(way.run(&[into(&segment(0)), last]).len(), left, "{number}");
            let mut tunnel = 0;
            counts.each(&mut |_, count| tunnel += if count.name == "tunnel" { count.value } else { 0 });
            assert_eq!(tunnel, left as u64 - 1, "{number}");
        }
    }
}
