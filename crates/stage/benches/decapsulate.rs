//! Compares the rate at which frames are taken out of a VXLAN and hashed by their own headers with that of dissecting and hashing
//! both headers where they are: alone, and as a stage does it that leaves the frames in the tunnel. Frames are in memory, in
//! batches of 32; rounds are interleaved; the results are medians and ratios of one run.

use corelane_packet::{Dissection, HashTypes, tunnel};
use corelane_rss::{Key, Toeplitz};
use corelane_stage::decapsulation::{Decapsulation, Plan};
use corelane_stage::encapsulation::{self, DontFragment, Encapsulation, Wrap};
use corelane_stage::{Desk, Stage, Work};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames per batch, batches per round, and rounds.
const BATCH: usize = 32;
const BATCHES: usize = 2000;
const ROUNDS: usize = 51;

fn main() {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let hash = |dissection: &Dissection<'_>| {
        let input = dissection
            .rss_input(HashTypes::ALL)
            .expect("every type is enabled");
        black_box(input.hash(&toeplitz));
    };
    let (mut lent, mut desk) = (wrapped(), Desk::default());
    let mut stage = Decapsulation::new(Plan::default(), Arc::default());
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(nanoseconds_a_frame(|| {
            for frame in black_box(&lent) {
                let outer = Dissection::of(frame).expect("frames of this benchmark are IP");
                hash(&outer);
                hash(&tunnel::inner(&outer).expect("frames of this benchmark are tunnels"));
            }
        }));
        let now = Instant::now();
        samples[1].push(nanoseconds_a_frame(|| {
            let mut work = Work::new(&mut desk, black_box(&mut lent), now);
            work.read(|work, place| hash(&work.dissection(place).expect("it was read")));
            for place in 0..work.len() {
                let outer = work.dissection(place).expect("it was read");
                hash(&tunnel::inner(&outer).expect("frames of this benchmark are tunnels"));
            }
        }));
        samples[2].push(nanoseconds_a_frame(|| {
            let mut work = Work::new(&mut desk, black_box(&mut lent), now);
            work.read(|work, place| hash(&work.dissection(place).expect("it was read")));
            stage.run(&mut work);
            work.settle();
            work.read(|work, place| hash(&work.dissection(place).expect("what is inside is IP")));
        }));
    }
    let [alone, in_stage, out] = samples.map(median);
    println!("VXLAN around UDP over IPv4, ns a frame (median of {ROUNDS} rounds)");
    println!("both headers dissected and hashed   {alone:8.2}");
    println!("the same in a stage                 {in_stage:8.2}");
    println!("taken out, both headers hashed      {out:8.2}");
    let ratios = [alone, in_stage].map(|reference| reference / out);
    println!(
        "ratio to the first and the second   {:8.2} {:8.2}",
        ratios[0], ratios[1]
    );
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

fn nanoseconds_a_frame(mut batch: impl FnMut()) -> f64 {
    let start = processor_time();
    (0..BATCHES).for_each(|_| batch());
    (processor_time() - start).as_nanos() as f64 / (BATCHES * BATCH) as f64
}

/// CPU time of this thread; unaffected by other processes.
fn processor_time() -> Duration {
    let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    clock.into()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
