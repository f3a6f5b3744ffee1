//! Devices with every named fault, and the verifier's report on each.

use crate::common::built;
use crate::common::frames::{self, V4};
use corelane_packet::verify::{Cause, CauseCount, Dialect, Observed, Queue, Report, Rule, Verifier, log};
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, HashFields, Key, Toeplitz, Tuple, oracle};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

/// The kernel log of "UDP RSS update: ixgbe(4) turned out to have issues..": hash and ring of nine frames.
const POST: &str = include_str!("../../rss/tests/vectors/post-wrong-ring.tsv");

fn verified_log(text: &str, queues: u16) -> Report {
    let mut verifier = Verifier::new(&Rule::of_queues(queues).unwrap());
    for pair in log::pairs(text) {
        let pair = pair.unwrap();
        verifier.pair(pair.hash, pair.queue);
    }
    verifier.report()
}

#[test]
fn all_nine_frames_of_the_post_are_misplaced_and_both_flows_are_named() {
    let mut report = verified_log(POST, 4);
    assert_eq!((report.frames, report.misplaced), (9, 9));
    let clients = (0..=255).map(|last| SocketAddr::from(([10, 11, 2, last], 0)));
    let flows = clients.map(|client| Tuple::new(client, SocketAddr::from(([10, 11, 2, 1], 0))).unwrap());
    let hash = |flow: &Tuple| Toeplitz::new(&Key::VERIFICATION).hash(flow, HashFields::TwoTuple);
    report.name_flows(hash, flows);
    let found: Vec<_> = report
        .misplacements
        .iter()
        .map(|row| {
            (
                row.hash,
                row.expected,
                row.actual,
                row.frames,
                row.flows[0].source().ip().to_string(),
            )
        })
        .collect();
    let expected = [
        (0x21f7_db62, Bucket::new(2), Queue(3), 5, "10.11.2.32".to_owned()),
        (0x335a_5c03, Bucket::new(3), Queue(2), 4, "10.11.2.33".to_owned()),
    ];
    assert_eq!(found, expected);
    assert!(report.misplacements.iter().all(|row| row.flows.len() == 1));
    let cause = CauseCount {
        cause: Cause::TableOrFlowRule,
        frames: 9,
    };
    assert_eq!(report.causes, [cause]);
    let by_bucket: Vec<_> = report
        .buckets
        .iter()
        .map(|bucket| (bucket.seen, bucket.right_queue, bucket.misplaced))
        .collect();
    assert_eq!(
        by_bucket,
        [(0, Some(0), 0), (0, Some(0), 0), (5, Some(0), 5), (4, Some(0), 4)]
    );
}

#[test]
fn the_post_s_frames_on_their_own_rings_are_right() {
    let report = verified_log("0x21f7db62 2\n0x335a5c03 3\n", 4);
    assert_eq!((report.frames, report.misplaced), (2, 0));
    assert!(report.causes.is_empty());
}

/// A device with four queues that hashes ports of TCP and UDP.
fn rule() -> Rule {
    Rule {
        hash_types: HashTypes::FOUR_TUPLE,
        ..Rule::of_queues(4).unwrap()
    }
}

/// Datagrams of `flows` flows to one server.
fn datagrams(flows: u32) -> Vec<Vec<u8>> {
    (0..flows)
        .map(|flow| {
            V4 {
                source: source(flow),
                ..V4::SUITE
            }
            .frame(&datagram(flow))
        })
        .collect()
}

fn source(flow: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + flow.wrapping_mul(0x9e37_79b9) % 0x0100_0000)
}

fn datagram(flow: u32) -> Vec<u8> {
    frames::udp(1024 + flow as u16, 8080, b"data")
}

/// What a device that follows the rule reports for a frame.
fn right(frame: &[u8]) -> Observed {
    let dissection = Dissection::of(frame).unwrap();
    by_input(dissection.rss_input(HashTypes::FOUR_TUPLE).unwrap().as_bytes())
}

fn by_input(input: &[u8]) -> Observed {
    by_hash(oracle::toeplitz(&Key::VERIFICATION, input))
}

fn by_hash(hash: u32) -> Observed {
    Observed {
        hash: Some(hash),
        queue: Some(Queue((hash & 3) as u16)),
        sequence: None,
    }
}

/// The observation without the hash.
fn queue_only(observed: Observed) -> Observed {
    Observed {
        hash: None,
        ..observed
    }
}

fn verified(frames: &[Vec<u8>], mut device: impl FnMut(&[u8]) -> Observed) -> Report {
    let mut verifier = Verifier::new(&rule());
    for frame in frames {
        verifier.frame(frame, device(frame));
    }
    verifier.report()
}

/// The distinct causes found.
fn causes(report: &Report) -> Vec<Cause> {
    report.causes.iter().map(|count| count.cause).collect()
}

#[test]
fn a_device_that_keeps_the_rule_has_nothing_misplaced() {
    let report = verified(&datagrams(2000), right);
    assert_eq!((report.frames, report.misplaced), (2000, 0));
    for bucket in &report.buckets {
        assert!(bucket.seen > 300, "{bucket:?}");
        assert_eq!(
            (bucket.right_hash, bucket.right_queue),
            (Some(bucket.seen), Some(bucket.seen))
        );
    }
}

#[test]
fn what_was_not_observed_is_not_judged() {
    let report = verified(&datagrams(100), |_| Observed::default());
    assert_eq!(
        (
            report.misplaced,
            report.buckets.iter().map(|bucket| bucket.seen).sum()
        ),
        (0, 100)
    );
    assert!(
        report
            .buckets
            .iter()
            .all(|bucket| bucket.right_hash.is_none() && bucket.right_queue.is_none())
    );
    let arp = frames::ethernet(&[], 0x0806, &[0; 28]);
    let report = verified(&[arp], |_| by_hash(0));
    assert_eq!((report.refused, report.misplaced), (1, 0));
}

/// What a device reports for a frame.
type Device = Box<dyn Fn(&[u8]) -> Observed>;

/// Devices that hash something else, with the cause to report.
fn other_hashes() -> Vec<(Cause, Device)> {
    let input = |frame: &[u8], types| {
        Dissection::of(frame)
            .unwrap()
            .rss_input(types)
            .unwrap()
            .as_bytes()
            .to_vec()
    };
    let four = move |frame: &[u8]| input(frame, HashTypes::FOUR_TUPLE);
    let reversed: Vec<u8> = Key::VERIFICATION.as_bytes().iter().rev().copied().collect();
    let shifted = [&[0], &Key::VERIFICATION.as_bytes()[..39]].concat();
    let with_key = move |key: Vec<u8>, change: u32| {
        let key = Key::from_bytes(&key).unwrap();
        move |frame: &[u8]| by_hash(oracle::toeplitz(&key, &four(frame)) ^ change)
    };
    let symmetric = move |frame: &[u8]| {
        let input = four(frame);
        let both = |a: usize, b: usize| input[a] ^ input[b];
        let address: Vec<u8> = (0..4).map(|at| both(at, at + 4)).collect();
        let port = [both(8, 10), both(9, 11)];
        by_input(&[&address[..], &address, &port, &port].concat())
    };
    vec![
        (
            Cause::Fields,
            Box::new(move |frame| by_input(&input(frame, HashTypes::TWO_TUPLE))),
        ),
        (
            Cause::Dialect(Dialect::ReversedKey),
            Box::new(with_key(reversed.clone(), 0)),
        ),
        (
            Cause::Dialect(Dialect::ReversedKeyInitialOnes),
            Box::new(with_key(reversed, u32::MAX)),
        ),
        (
            Cause::Dialect(Dialect::ShiftedKey),
            Box::new(with_key(shifted, 0)),
        ),
        (Cause::Dialect(Dialect::SymmetricXor), Box::new(symmetric)),
    ]
}

#[test]
fn a_device_that_hashes_something_else_is_caught_by_its_hash_and_by_its_queue_alone() {
    let frames = datagrams(500);
    for (cause, device) in other_hashes() {
        let report = verified(&frames, &device);
        assert_eq!(causes(&report), [cause]);
        assert!(report.misplaced > 300, "{cause:?}: {} of 500", report.misplaced);
        assert!(report.buckets.iter().all(|bucket| bucket.right_hash == Some(0)));
        let report = verified(&frames, |frame| queue_only(device(frame)));
        assert_eq!(causes(&report), [cause], "by queue alone");
    }
}

#[test]
fn a_device_with_another_key_is_told_from_one_with_another_dialect() {
    let frames = datagrams(500);
    let key = Key::from_bytes(
        &(100..140)
            .map(|byte: u8| byte.wrapping_mul(151))
            .collect::<Vec<_>>(),
    )
    .unwrap();
    let device = |frame: &[u8]| {
        let input = Dissection::of(frame)
            .unwrap()
            .rss_input(HashTypes::FOUR_TUPLE)
            .unwrap();
        by_hash(oracle::toeplitz(&key, input.as_bytes()))
    };
    assert_eq!(causes(&verified(&frames, device)), [Cause::OtherHash]);
}

#[test]
fn frames_that_a_device_did_not_hash_are_named() {
    let report = verified(&datagrams(100), |_| by_hash(0));
    assert_eq!(causes(&report), [Cause::NotHashed]);
}

#[test]
fn another_table_moves_whole_entries() {
    let rotated = |frame: &[u8]| {
        let observed = right(frame);
        Observed {
            queue: observed.queue.map(|Queue(queue)| Queue((queue + 1) % 4)),
            ..observed
        }
    };
    let frames = datagrams(2000);
    for report in [
        verified(&frames, rotated),
        verified(&frames, |frame| queue_only(rotated(frame))),
    ] {
        assert_eq!(report.misplaced, 2000);
        assert_eq!(causes(&report), [Cause::ChangedTable]);
    }
}

#[test]
fn a_table_changed_on_the_way_is_a_changed_table() {
    let frames = datagrams(4000);
    let mut number = 0;
    let report = verified(&frames, |frame| {
        number += 1;
        let observed = right(frame);
        let queue = observed.queue.filter(|_| number <= 2000).or(Some(Queue(3)));
        Observed { queue, ..observed }
    });
    assert_eq!(causes(&report), [Cause::ChangedTable]);
    assert!((1400..1600).contains(&report.misplaced), "{}", report.misplaced);
}

#[test]
fn rules_for_single_flows_move_some_of_an_entry_and_leave_others() {
    let picked = |frame: &[u8]| frame[29] % 16 == 5;
    let device = |frame: &[u8]| {
        let observed = right(frame);
        let queue = observed
            .queue
            .map(|Queue(queue)| Queue(if picked(frame) { queue ^ 1 } else { queue }));
        Observed { queue, ..observed }
    };
    let frames = datagrams(4000);
    let all: Vec<_> = frames.iter().chain(&frames).cloned().collect();
    let report = verified(&all, device);
    assert_eq!(
        report.misplaced,
        2 * frames.iter().filter(|frame| picked(frame)).count() as u64
    );
    assert_eq!(report.causes[0].cause, Cause::FlowRule);
    assert!(
        report.causes[0].frames * 10 > report.misplaced * 9,
        "{:?}",
        report.causes
    );
}

#[test]
fn fragments_hashed_with_ports_are_told_from_all_else() {
    let fragments: Vec<_> = (0..200)
        .flat_map(|flow| {
            let part = |fragment| V4 {
                source: source(flow),
                fragment,
                ..V4::SUITE
            };
            [
                part(0x2000).frame(&datagram(flow)),
                part(0x0002).frame(&datagram(flow + 1)),
            ]
        })
        .collect();
    let frames = [datagrams(500), fragments].concat();
    let device = |frame: &[u8]| {
        let at = Dissection::of(frame).unwrap().transport_offset();
        by_input(&frame[at - 8..at + 4])
    };
    for report in [
        verified(&frames, device),
        verified(&frames, |frame| queue_only(device(frame))),
    ] {
        assert_eq!(causes(&report), [Cause::Fragment]);
        assert!((250..350).contains(&report.misplaced), "{}", report.misplaced);
    }
}

#[test]
fn a_device_that_looks_into_tunnels_is_caught() {
    let frames: Vec<_> = datagrams(300)
        .iter()
        .map(|inner| {
            V4 {
                protocol: 4,
                ..V4::SUITE
            }
            .frame(&inner[14..])
        })
        .collect();
    let device = |frame: &[u8]| right(&[&frame[..14], &frame[34..]].concat());
    for report in [
        verified(&frames, device),
        verified(&frames, |frame| queue_only(device(frame))),
    ] {
        assert_eq!(causes(&report), [Cause::Tunnel]);
    }
}

#[test]
fn late_frames_and_changes_of_queue_are_counted_a_flow() {
    let segment = |flow: u32, number: u32| {
        let tcp = frames::tcp(1024 + flow as u16, 80, 1000 + 4 * number, b"data");
        V4 {
            protocol: 6,
            source: source(flow),
            ..V4::SUITE
        }
        .frame(&tcp)
    };
    let mut verifier = Verifier::new(&rule());
    // Flow 0 arrives in order on one queue; flow 1 is spread over two, and its third frame arrives after its fourth.
    for (number, other, queue) in [(0, 0, 0), (1, 1, 1), (2, 3, 0), (3, 2, 1)] {
        let on = |queue| Observed {
            queue: Some(Queue(queue)),
            ..Observed::default()
        };
        verifier.frame(&segment(0, number), on(2));
        verifier.frame(&segment(1, other), on(queue));
    }
    let order = verifier.report().reordering;
    assert_eq!((order.followed, order.late, order.queue_changes), (8, 1, 3));
    assert_eq!(order.forgotten, 0);
}

#[test]
fn whole_datagrams_and_first_fragments_of_a_flow_change_queues() {
    let small = datagrams(1).remove(0);
    let first = V4 {
        fragment: 0x2000,
        source: source(0),
        ..V4::SUITE
    }
    .frame(&datagram(0));
    let frames: Vec<_> = [small, first].into_iter().cycle().take(10).collect();
    let report = verified(&frames, right);
    assert_eq!(
        report.misplaced, 0,
        "the device follows the rule, and the flow is spread nevertheless"
    );
    let expected = if right(&frames[0]).queue == right(&frames[1]).queue {
        0
    } else {
        9
    };
    assert_eq!(expected, 9, "the flow of this test is one that the rule spreads");
    assert_eq!(report.reordering.queue_changes, expected);
}

#[test]
fn datagrams_are_followed_by_the_sequence_that_is_given() {
    let mut verifier = Verifier::new(&rule());
    for (frame, sequence) in datagrams(1).iter().cycle().zip([0, 1, 3, 2, 4]) {
        verifier.frame(
            frame,
            Observed {
                sequence: Some(sequence),
                ..Observed::default()
            },
        );
    }
    let order = verifier.report().reordering;
    assert_eq!((order.followed, order.late), (5, 1));
}

#[test]
fn a_flow_is_followed_through_its_fragments() {
    let whole = datagrams(1).remove(0);
    let first = V4 {
        fragment: 0x2000,
        source: source(0),
        ..V4::SUITE
    }
    .frame(&datagram(0));
    let mut verifier = Verifier::new(&rule());
    for (frame, sequence) in [(&whole, 0), (&whole, 2), (&first, 1), (&whole, 3)] {
        verifier.frame(
            frame,
            Observed {
                sequence: Some(sequence),
                ..Observed::default()
            },
        );
    }
    let order = verifier.report().reordering;
    assert_eq!((order.followed, order.late, order.forgotten), (4, 1, 0));
}

#[test]
fn flows_past_what_memory_is_kept_for_are_counted() {
    let mut verifier = Verifier::new(&rule());
    for hash in 0..100_000 {
        verifier.pair(hash << 2, Queue(1));
    }
    let report = verifier.report();
    assert_eq!((report.misplaced, report.misplacements.len()), (100_000, 16_384));
    assert_eq!(report.misplacements_left_off, 100_000 - 16_384);
}

#[test]
fn a_report_is_a_document() {
    let json = serde_json::to_value(verified_log(POST, 4)).unwrap();
    assert_eq!(json["misplaced"], 9);
    assert_eq!(json["buckets"][2]["misplaced"], 5);
    assert_eq!(json["buckets"][2]["right_hash"], serde_json::Value::Null);
    assert_eq!(json["misplacements"][0]["hash"], "0x21f7db62");
    assert_eq!(json["causes"][0]["cause"], "table-or-flow-rule");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every frame, whatever its path through the verifier, is counted for the bucket of its hash.
    #[test]
    fn frames_of_every_shape_are_seen_by_the_bucket_that_their_hash_names(
        shapes in proptest::collection::vec(built::shape(), 1..200),
        queues in any::<bool>(),
    ) {
        let rule = rule();
        let mut verifier = Verifier::new(&rule);
        let mut expected = vec![0; 4];
        for shape in &shapes {
            let frame = shape.frame();
            let observed = right(&frame);
            let bucket = rule.table.bucket(observed.hash.unwrap());
            expected[bucket.index()] += 1;
            verifier.frame(&frame, if queues { observed } else { Observed::default() });
        }
        let report = verifier.report();
        let seen: Vec<u64> = report.buckets.iter().map(|bucket| bucket.seen).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!((report.frames, report.misplaced), (shapes.len() as u64, 0));
    }
}
