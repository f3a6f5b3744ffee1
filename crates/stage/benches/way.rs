//! Compares the rate of all stages with that of dissecting and hashing alone, for frames on which no stage has anything to do:
//! dispatched to their bucket by their hash, then looked at for fragments, tunnels and segments to merge or
//! to cut. Frames of 64 bytes are in memory, in batches of 32; rounds are interleaved; the results are medians and
//! ratios of one run.

mod common;

use common::{BATCH, ROUNDS, median, nanoseconds_a_frame};
use corelane_packet::Dissection;
use corelane_rss::{Key, Toeplitz};
use corelane_stage::{Desk, Stage, Work};
use std::hint::black_box;
use std::time::Instant;

/// Every stage that leaves frames like these as they are.
const PLANS: &str = "[reassemble]\n[decapsulate]\n[coalesce]\n[segment]\n[fragment]\nmtu = 1500\n";

fn main() {
    println!("64-byte frames, ns each (median of {ROUNDS} rounds)");
    println!("frames      dissect + hash   all stages   ratio of rates (0.5 is wanted)");
    for (name, protocol) in [("UDP", 17), ("TCP", 6)] {
        compare(name, protocol);
    }
}

fn compare(name: &str, protocol: u8) {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let mut lent: Vec<Vec<u8>> = (0..BATCH).map(|flow| frame(flow, protocol)).collect();
    let (mut way, mut desk) = (common::way(PLANS), Desk::default());
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(nanoseconds_a_frame(|| {
            for frame in black_box(&lent) {
                let packet = Dissection::of(frame).expect("frames of this benchmark are IP");
                common::hash(&packet, &toeplitz);
            }
        }));
        let now = Instant::now();
        samples[1].push(nanoseconds_a_frame(|| {
            let mut work = Work::new(&mut desk, black_box(&mut lent), now);
            way.run(&mut work);
            assert!(work.fates().is_none(), "every frame goes on");
        }));
    }
    let [alone, stages] = samples.map(median);
    println!("{name:8} {alone:17.2} {stages:12.2} {:16.2}", alone / stages);
}

/// A frame of a flow of its own, with a checksum that nobody looks at.
fn frame(flow: usize, protocol: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend([10, 1, 0, flow as u8, 10, 2, 0, 1]);
    frame.extend([0x80, flow as u8, 0, 53]);
    match protocol {
        17 => frame.extend([0, 30, 0, 0]),
        _ => frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]),
    }
    frame.resize(64, 0);
    frame
}
