//! Compares the rate at which frames are dispatched, taken out of a VXLAN and dispatched again by their own headers with that of
//! dissecting and hashing both headers where they are. Frames are in memory, in batches of 32; rounds are interleaved;
//! the results are medians and a ratio of one run.

mod common;

use common::{BATCH, ROUNDS, median, nanoseconds_a_frame};
use corelane_packet::{Dissection, tunnel};
use corelane_rss::{Key, Toeplitz};
use corelane_stage::encapsulation::{self, DontFragment, Encapsulation, Wrap};
use corelane_stage::{Desk, Stage, Work};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let (mut lent, mut desk) = (wrapped(), Desk::default());
    let mut way = common::way("[decapsulate]");
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(nanoseconds_a_frame(|| {
            for frame in black_box(&lent) {
                let outer = Dissection::of(frame).expect("frames of this benchmark are IP");
                common::hash(&outer, &toeplitz);
                let inner = tunnel::inner(&outer).expect("frames of this benchmark are tunnels");
                common::hash(&inner, &toeplitz);
            }
        }));
        let now = Instant::now();
        samples[1].push(nanoseconds_a_frame(|| {
            let mut work = Work::new(&mut desk, black_box(&mut lent), now);
            way.run(&mut work);
            assert_eq!(work.depth(0), 1, "it was taken out");
        }));
    }
    let [alone, out] = samples.map(median);
    println!("VXLAN around UDP over IPv4, ns a frame (median of {ROUNDS} rounds)");
    println!("both headers dissected and hashed       {alone:8.2}");
    println!("taken out, dispatched by both headers   {out:8.2}");
    println!("ratio of rates (0.7 is wanted)          {:8.2}", alone / out);
}

/// Frames of many flows in one VXLAN.
fn wrapped() -> Vec<Vec<u8>> {
    let plan = encapsulation::Plan {
        wrap: Wrap::Vxlan { vni: 7 },
        local: [10, 0, 0, 1].into(),
        remote: [10, 0, 0, 2].into(),
        source_mac: None,
        destination_mac: None,
        dscp: None,
        ttl: 64,
        df: DontFragment::Inherit,
        link: None,
    };
    let mut stage = Encapsulation::new(plan, &Key::VERIFICATION, (0, 1), Arc::default());
    let (mut lent, mut desk) = ((0..BATCH).map(datagram).collect::<Vec<_>>(), Desk::default());
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    stage.run(&mut work);
    (0..work.len()).map(|place| work.frame(place).to_vec()).collect()
}

/// A frame of 64 bytes with an empty UDP checksum.
fn datagram(flow: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 1, 0, flow as u8, 10, 2, 0, 1]);
    frame.extend([0x80, flow as u8, 0, 53, 0, 30, 0, 0]);
    frame.resize(64, 0);
    frame
}
