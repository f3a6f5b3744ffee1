//! A receiver of TCP cannot see that segments were merged: it gets the same bytes, marks of congestion and acknowledgments.
//! Only how many times it acknowledges the same number changes, which is printed.

use super::{Tcp, coalesced_frames, segment, there_and_back};
use corelane_stage::coalescing::{Grouping, Plan, Push};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, VecDeque};

/// Segments of a flow are this long, if they are not the last of what their sender had.
const FULL: usize = 20;

/// What the sender of a flow sends next.
#[derive(Clone, Copy, Debug)]
struct Sent {
    flow: u16,
    /// Bytes of payload, of at most [`FULL`].
    length: usize,
    /// The segment is the oldest one that was lost, if one was.
    repairs: bool,
    /// It begins this many bytes before what was not sent yet.
    back: u32,
    is_lost: bool,
    /// It overtakes the one sent before it, of any flow.
    overtakes: bool,
    pushes: bool,
    is_marked: bool,
    /// Acknowledges so many bytes more.
    acknowledges: u32,
    other: Other,
}

#[derive(Clone, Copy, Debug)]
enum Other {
    Nothing,
    Window,
    Options,
    Fin,
    Identification,
    /// A bit of the frame is flipped, this many bytes before its end.
    Damage(usize),
}

fn sent() -> impl Strategy<Value = Sent> {
    let other = prop_oneof![
        30 => Just(Other::Nothing),
        1 => Just(Other::Window),
        1 => Just(Other::Options),
        1 => Just(Other::Fin),
        1 => Just(Other::Identification),
        1 => (0..60_usize).prop_map(Other::Damage),
    ];
    let length = prop_oneof![8 => Just(FULL), 1 => 0..FULL, 1 => Just(0)];
    let back = prop_oneof![20 => Just(0), 1 => 1..80_u32];
    let rarely = proptest::bool::weighted;
    let (repairs, lost, overtakes) = (rarely(0.3), rarely(0.02), rarely(0.02));
    let (pushes, marked) = (rarely(0.05), rarely(0.1));
    let acknowledges = prop_oneof![9 => Just(0), 1 => 1..3_u32];
    (
        0..4_u16,
        length,
        (repairs, back),
        lost,
        overtakes,
        pushes,
        marked,
        acknowledges,
        other,
    )
        .prop_map(
            |(flow, length, (repairs, back), is_lost, overtakes, pushes, is_marked, acknowledges, other)| {
                Sent {
                    flow,
                    length,
                    repairs,
                    back,
                    is_lost,
                    overtakes,
                    pushes,
                    is_marked,
                    acknowledges,
                    other,
                }
            },
        )
}

/// The first sequence number of a flow: some wrap round soon.
fn first(flow: u16) -> u32 {
    0_u32.wrapping_sub(150 * u32::from(flow))
}

/// What the sender of a flow has sent.
#[derive(Default)]
struct Sender {
    next: u32,
    acknowledged: u32,
    count: u16,
    /// Start and length of what was lost.
    lost: VecDeque<(u32, usize)>,
}

/// The frames that arrive.
fn arriving(all: &[Sent]) -> Vec<Vec<u8>> {
    let mut flows = [(); 4].map(|()| Sender::default());
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for sent in all {
        let flow = &mut flows[usize::from(sent.flow)];
        let lost = if sent.repairs { flow.lost.pop_front() } else { None };
        let next = (flow.next.saturating_sub(sent.back), sent.length);
        let (start, length) = lost.unwrap_or(next);
        let payload: Vec<u8> = (start..start + length as u32)
            .map(|at| at.wrapping_mul(31) as u8 ^ sent.flow as u8)
            .collect();
        flow.next = flow.next.max(start + length as u32);
        flow.acknowledged += sent.acknowledges;
        flow.count += 1;
        if sent.is_lost || matches!(sent.other, Other::Damage(_)) {
            flow.lost.push_back((start, length));
        }
        if sent.is_lost {
            continue;
        }
        let is_v6 = sent.flow % 2 == 1;
        let mut tcp = segment(
            is_v6,
            1024 + sent.flow,
            first(sent.flow).wrapping_add(start),
            &payload,
        );
        tcp.tcp.acknowledgment_number = flow.acknowledged;
        tcp.tcp.psh = sent.pushes;
        if is_v6 {
            tcp.v6().0.traffic_class = if sent.is_marked { 3 } else { 2 };
        } else {
            tcp.v4().identification = flow.count;
            tcp.v4().ecn = (if sent.is_marked { 3 } else { 2 }).try_into().unwrap();
        }
        let frame = changed(tcp, sent.other);
        let at = frames.len() - usize::from(sent.overtakes).min(frames.len());
        frames.insert(at, frame);
    }
    frames
}

fn changed(mut tcp: Tcp, other: Other) -> Vec<u8> {
    match other {
        Other::Window => tcp.tcp.window_size += 1,
        Other::Options => tcp.tcp.set_options_raw(&[1, 1, 1, 1]).unwrap(),
        Other::Fin => tcp.tcp.fin = true,
        Other::Identification if !tcp.is_v6() => tcp.v4().identification += 100,
        Other::Nothing | Other::Identification | Other::Damage(_) => (),
    }
    let mut frame = tcp.frame();
    if let Other::Damage(before) = other {
        let at = frame.len() - 1 - before;
        frame[at] ^= 1 << (before % 8);
    }
    frame
}

/// What a receiver knows of a flow.
#[derive(Debug, Default, PartialEq)]
struct Received {
    /// By offset in the stream: the byte, and whether the packet that brought it first was marked.
    bytes: BTreeMap<u32, (u8, bool)>,
    /// Each byte as it came: its offset, value, mark, acknowledgment number, window and options. What has no payload,
    /// or other flags, is one entry.
    arrived: Vec<Arrived>,
    /// The stream is complete before this offset.
    next: u32,
    /// What it acknowledged, once for each segment with payload.
    acknowledged: Vec<u32>,
    /// Ends of segments with PSH.
    pushed: Vec<u32>,
}

type Arrived = (u32, Option<u8>, u8, u32, u16, Vec<u8>, bool);

impl Received {
    fn duplicates(&self) -> usize {
        self.acknowledged
            .windows(2)
            .filter(|two| two[0] == two[1])
            .count()
    }
}

type Flows = BTreeMap<u16, Received>;

/// A frame arrives; a damaged one is dropped.
fn receive(flows: &mut Flows, frame: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(frame).ok();
    let Some((Some(net), Some(TransportSlice::Tcp(tcp)))) =
        sliced.map(|sliced| (sliced.net, sliced.transport))
    else {
        return;
    };
    let header = tcp.to_header();
    let (right, tos) = match &net {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            let is_whole = ip.header_checksum == ip.calc_header_checksum();
            let checksum = header.calc_checksum_ipv4(&ip, tcp.payload());
            (is_whole && checksum == Ok(header.checksum), ip.ecn.value())
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header().to_header();
            let checksum = header.calc_checksum_ipv6(&ip, tcp.payload());
            (checksum == Ok(header.checksum), ip.traffic_class)
        }
        NetSlice::Arp(_) => return,
    };
    if !right {
        return;
    }
    let flow = flows.entry(header.source_port).or_default();
    let start = header
        .sequence_number
        .wrapping_sub(first(header.source_port.wrapping_sub(1024)));
    let of_all = |at, byte| {
        let (number, window) = (header.acknowledgment_number, header.window_size);
        (at, byte, tos, number, window, header.options.to_vec(), header.fin)
    };
    if tcp.payload().is_empty() || header.fin {
        flow.arrived.push(of_all(start, None));
    }
    for (at, byte) in (start..).zip(tcp.payload()) {
        flow.arrived.push(of_all(at, Some(*byte)));
        flow.bytes.entry(at).or_insert((*byte, tos & 3 == 3));
    }
    while flow.bytes.contains_key(&flow.next) {
        flow.next += 1;
    }
    if !tcp.payload().is_empty() {
        flow.acknowledged.push(flow.next);
        if header.psh {
            flow.pushed.push(start + tcp.payload().len() as u32);
        }
    }
}

/// What receivers get of the frames as they arrive, and merged in batches.
fn both_ways(frames: &[Vec<u8>], batch: usize, plan: Plan) -> (Flows, Flows) {
    let (mut plain, mut merged) = (Flows::new(), Flows::new());
    for batch in frames.chunks(batch) {
        batch.iter().for_each(|frame| receive(&mut plain, frame));
        let ran = coalesced_frames(
            plan,
            batch.iter().map(|frame| (0, frame.clone())).collect(),
            |_| (),
        );
        ran.frames.iter().for_each(|frame| receive(&mut merged, frame));
        for (port, flow) in &plain {
            assert_eq!(merged[port].next, flow.next, "after every batch");
        }
    }
    (plain, merged)
}

fn assert_same(plain: &Flows, merged: &Flows, plan: Plan) {
    for (port, flow) in plain {
        let other = &merged[port];
        assert_eq!(other.bytes, flow.bytes, "the bytes, and those that were marked");
        assert_eq!(
            other.arrived, flow.arrived,
            "also their order, and what the segments said"
        );
        let mut rest = flow.acknowledged.iter();
        let is_part = other
            .acknowledged
            .iter()
            .all(|number| rest.any(|other| other == number));
        assert!(is_part, "it acknowledges no other number, in no other order");
        if plan.push == Push::End {
            assert_eq!(other.pushed, flow.pushed);
        }
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let push = prop_oneof![Just(Push::End), Just(Push::Merge)];
    let grouping = prop_oneof![Just(Grouping::Sorted), Just(Grouping::List)];
    (push, grouping).prop_map(|(push, grouping)| Plan {
        push,
        grouping,
        ..Plan::default()
    })
}

proptest! {
    #[test]
    fn a_receiver_sees_the_same(all in vec(sent(), 0..120), batch in 1..100_usize, plan in plan()) {
        let (plain, merged) = both_ways(&arriving(&all), batch, plan);
        assert_same(&plain, &merged, plan);
    }

    #[test]
    fn segmenting_undoes_coalescing(all in vec(sent(), 0..120), grouping in plan()) {
        let frames = arriving(&all);
        let plan = Plan { push: Push::End, ..grouping };
        let (mut back, counts) = there_and_back(plan, frames.iter().map(|frame| (0, frame.clone())).collect());
        prop_assert!(counts.segments.get() >= 2 * counts.merged.get());
        // Those of a flow are in order; those of others may leave before them.
        let mut frames = frames;
        frames.sort_by_key(|frame| flow_of(frame));
        back.sort_by_key(|frame| flow_of(frame));
        prop_assert_eq!(back, frames);
    }
}

/// Version and length of the IP header, protocol, addresses and ports: damage makes another flow of a frame.
fn flow_of(frame: &[u8]) -> Vec<u8> {
    let (protocol, flow) = match frame[12] {
        0x86 => (20, 22..58),
        _ => (23, 26..38),
    };
    [&frame[12..15], &[frame[protocol]], &frame[flow]].concat()
}

#[test]
fn only_duplicate_acknowledgments_change_in_number() {
    let mut runner = TestRunner::deterministic();
    let all = vec(sent(), 20_000).new_tree(&mut runner).unwrap().current();
    let frames = arriving(&all);
    let (plain, merged) = both_ways(&frames, 256, Plan::default());
    assert_same(&plain, &merged, Plan::default());
    let duplicates = |flows: &Flows| flows.values().map(Received::duplicates).sum::<usize>();
    let (before, after) = (duplicates(&plain), duplicates(&merged));
    println!(
        "{} frames: {before} duplicate acknowledgments, {after} of merged ones",
        frames.len()
    );
    assert!(
        after < before,
        "one frame is acknowledged once: {before}, {after}"
    );
    let acknowledged = |flows: &Flows| flows.values().map(|flow| flow.acknowledged.len()).sum::<usize>();
    assert!(
        acknowledged(&merged) * 4 < acknowledged(&plain) * 3,
        "frames were merged"
    );
}
