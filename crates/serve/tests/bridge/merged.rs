//! Bridges that merge TCP segments, and cut them again, from capture to capture.

use super::namespaces::plan;
use corelane_link::{Link, LinkError, Opener};
use corelane_serve::Server as _;
use corelane_serve::bridge::{Bridge, BridgeError, BridgePlan, Bridged, LONGEST_BURST};
use corelane_stage::StagePlans;
use corelane_stage::{coalescing, fragmenting, segmenting};
use corelane_tests::until;
use etherparse::PacketBuilder;
use std::path::Path;

const FLOWS: u16 = 100;
const SEGMENTS: u32 = 40;

/// Segments of a hundred flows, one of each after the other, both families.
fn segments() -> Vec<Vec<u8>> {
    let segment = |flow: u16, number: u32| {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = match flow % 2 {
            0 => ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
            _ => ethernet.ipv6([7; 16], [8; 16], 64),
        };
        let mut frame = Vec::new();
        ip.tcp(1024 + flow, 80, 500 * number, 1000)
            .ack(1)
            .write(&mut frame, &[flow as u8; 500])
            .unwrap();
        frame
    };
    let of = |number| (0..FLOWS).map(move |flow| segment(flow, number));
    (0..SEGMENTS).flat_map(of).collect()
}

fn open(spec: &str) -> impl Link + use<> {
    Opener::new(spec.parse().unwrap()).open().unwrap().remove(0)
}

fn read(file: &Path) -> Vec<Vec<u8>> {
    let mut link = open(&format!("pcap:{},frames=1024,stride=65600", file.display()));
    let mut frames = Vec::new();
    while !link.is_ended() {
        frames.extend(link.receive(1024).unwrap().iter().map(<[u8]>::to_vec));
    }
    frames
}

/// Bridges the segments with these stages; returns the report and the frames that left.
fn bridged(stages: StagePlans) -> (Bridged, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let frames = segments();
    let mut link = open(&format!("pcap:out={}", from.display()));
    assert_eq!(
        link.send(frames.iter().map(Vec::as_slice)).unwrap().taken,
        frames.len()
    );
    link.check().unwrap();
    drop(link);
    let links = [
        format!("pcap:{}", from.display()),
        format!("pcap:out={}", to.display()),
    ];
    let plan = BridgePlan {
        burst: LONGEST_BURST,
        stages,
        ..plan(&links.each_ref().map(String::as_str), 1)
    };
    let bridge = Bridge::start(plan).unwrap();
    until("the capture is read", || bridge.is_finished());
    let bridged = bridge.stop().unwrap();
    assert_eq!(bridged.unaccounted(), 0, "{bridged:?}");
    (bridged, read(&to))
}

#[test]
fn a_capture_is_merged_in_batches() {
    let (bridged, frames) = bridged(StagePlans {
        coalesce: Some(coalescing::Plan::default()),
        ..StagePlans::default()
    });
    let all = u64::from(FLOWS) * u64::from(SEGMENTS);
    let counts = &bridged.stages["coalesce"];
    assert_eq!((counts["segments"], bridged.received), (all, all));
    assert_eq!(
        (counts["aggregations"], bridged.passed),
        (frames.len() as u64, frames.len() as u64)
    );
    assert!(frames.len() * 3 < all as usize, "{} frames", frames.len());
    let payload: usize = frames
        .iter()
        .map(|frame| frame.iter().filter(|byte| **byte == 99).count())
        .sum();
    assert!(payload >= 500 * SEGMENTS as usize, "the last flow is there");
    assert_eq!(bridged.batch_wait.unwrap().count, all);
}

#[test]
fn a_capture_that_is_merged_and_cut_is_what_it_was() {
    let (bridged, mut frames) = bridged(StagePlans {
        coalesce: Some(coalescing::Plan::default()),
        segment: Some(segmenting::Plan::default()),
        ..StagePlans::default()
    });
    let mut expected = segments();
    // By flow: the segments of one flow leave together, in order.
    let flow = |frame: &Vec<u8>| frame[if frame[12] == 8 { 34..36 } else { 54..56 }].to_vec();
    frames.sort_by_key(flow);
    expected.sort_by_key(flow);
    assert!(frames == expected);
    assert!(bridged.stages["segment"]["merged"] > 0);
}

#[test]
fn what_cannot_take_merged_segments_is_refused_by_name() {
    let refusal = |links: &[&str], stages: StagePlans| {
        let plan = BridgePlan {
            stages,
            ..plan(links, 1)
        };
        match Bridge::start(plan).err().unwrap() {
            BridgeError::Setting(stage, why) => format!("{stage}: {why}"),
            BridgeError::Link(LinkError::Unavailable(why)) => panic!("{why}"),
            other => other.to_string(),
        }
    };
    let coalesce = || StagePlans {
        coalesce: Some(coalescing::Plan::default()),
        ..StagePlans::default()
    };
    assert_eq!(
        refusal(&["xdp:none0", "packet:none1"], coalesce()),
        "coalesce: xdp:none0 does not take frames of merged segments: AF_XDP sends frames up to the device's MTU, or add segment"
    );
    let fragmented = StagePlans {
        fragment: Some(fragmenting::Plan { mtu: 600 }),
        ..coalesce()
    };
    assert_eq!(
        refusal(&["packet:none0", "packet:none1"], fragmented),
        "coalesce: merged segments are too long for encapsulate and fragment: add segment"
    );
}
