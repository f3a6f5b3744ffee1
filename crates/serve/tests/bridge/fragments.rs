//! A bridge between captures makes datagrams of fragments: its time is that of the frames.

use corelane_link::capture::{CaptureLink, CaptureWriter};
use corelane_link::{FrameLayout, Link};
use corelane_packet::checksum;
use corelane_serve::Server;
use corelane_serve::bridge::{Bridge, BridgePlan, Bridged};
use corelane_stage::reassembly;
use corelane_tests::until;
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

/// Since the epoch.
const DATE: u64 = 1_700_000_000 * SECOND;

/// A fragment of 8 bytes of a UDP datagram.
fn fragment(id: u8, offset: u8, more: bool) -> Vec<u8> {
    let mut packet = vec![
        0x45,
        0,
        0,
        28,
        0,
        id,
        u8::from(more) << 5,
        offset / 8,
        64,
        17,
        0,
        0,
    ];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum::internet(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend([offset; 8]);
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], &packet[..]].concat()
}

/// Writes frames with their seconds since a date.
fn write(path: &Path, date: u64, frames: &[(u64, Vec<u8>)]) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (second, frame) in frames {
        let time = date + second * SECOND;
        writer.write(time, frame.len() as u32, frame).unwrap();
    }
    writer.flush().unwrap();
}

/// Makes datagrams of fragments in captures, to their end.
fn reassembled(from: &[&Path], to: &Path, change: impl FnOnce(&mut BridgePlan)) -> Bridged {
    let mut links: Vec<String> = from
        .iter()
        .map(|path| format!("pcap:{}", path.display()))
        .collect();
    links.push(format!("pcap:out={}", to.display()));
    let cpus = corelane_host::cpus::allowed().unwrap().cpus;
    let mut plan = BridgePlan::new(links, cpus);
    plan.stages.reassemble = Some(reassembly::Plan::default());
    change(&mut plan);
    let bridge = Bridge::start(plan).unwrap();
    until("the captures end", || bridge.is_finished());
    bridge.stop().unwrap()
}

#[test]
fn fragments_of_a_capture_wait_by_its_own_time_and_are_counted_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    // The second datagram is given up when the third begins; its last fragment and the third wait at the end.
    write(
        &from,
        DATE,
        &[
            (0, fragment(1, 0, true)),
            (0, fragment(2, 0, true)),
            (20, fragment(1, 8, false)),
            (31, fragment(3, 0, true)),
            (31, fragment(2, 8, false)),
        ],
    );
    let bridged = reassembled(&[&from], &to, |_| ());
    let counts = &bridged.stages["reassemble"];
    let counted = [
        "fragments",
        "datagrams",
        "made_whole",
        "timeout",
        "ended",
        "waiting",
    ];
    assert_eq!(counted.map(|name| counts[name]), [5, 1, 2, 1, 2, 0], "{counts:?}");
    assert_eq!((bridged.received, bridged.passed), (5, 1));
    assert_eq!(
        (
            bridged.dropped["reassemble_timeout"],
            bridged.dropped["reassemble_ended"]
        ),
        (1, 2)
    );
    let mut whole = CaptureLink::open(Some(&to), None, FrameLayout::default()).unwrap();
    let whole = whole.receive(64).unwrap();
    assert_eq!(whole.len(), 1);
    let data = [[0; 8], [8; 8]].concat();
    assert_eq!(whole.frame(0)[34..], data);
}

#[test]
fn fragments_of_one_capture_do_not_wait_by_the_time_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new, to] = ["old", "new", "to"].map(|name| folder.path().join(format!("{name}.pcap")));
    // In turns, one frame of each.
    let frames = [
        (0, fragment(1, 0, true)),
        (5, fragment(2, 0, true)),
        (10, fragment(3, 0, true)),
        (29, fragment(1, 8, false)),
    ];
    write(&old, SECOND, &frames);
    let frames = [
        (0, fragment(1, 0, true)),
        (25, fragment(1, 8, false)),
        (2_000, fragment(2, 0, true)),
    ];
    write(&new, DATE, &frames);
    let bridged = reassembled(&[&old, &new], &to, |plan| plan.burst = 1);
    let counts = &bridged.stages["reassemble"];
    let counted = ["fragments", "datagrams", "made_whole", "timeout", "ended"];
    // The others of the old one are too late once only the new one goes on.
    assert_eq!(counted.map(|name| counts[name]), [7, 2, 4, 2, 1], "{counts:?}");
}

#[test]
fn fragments_of_a_capture_do_not_wait_by_the_time_that_reading_takes() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(format!("{name}.pcap")));
    write(&from, 1, &[(0, fragment(1, 0, true)), (0, fragment(1, 8, false))]);
    let bridged = reassembled(&[&from], &to, |plan| {
        plan.burst = 1;
        plan.stages.reassemble.as_mut().unwrap().timeout = 1e-9;
    });
    assert_eq!(bridged.stages["reassemble"]["datagrams"], 1, "{bridged:?}");
}
