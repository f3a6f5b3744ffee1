//! The time to infer a device from its samples, and whether it grows linearly with their number. Times are the fastest
//! of three rounds; targets: 100,000 samples in a few seconds, about ten times as long as 10,000 samples.
//! `cargo bench -p corelane-rss --bench infer`

use corelane_rss::infer::{Sample, infer};
use corelane_rss::{HashFields, IndirectionTable, Key, Protocol, Toeplitz, Tuple};
use std::hint::black_box;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;

fn main() {
    println!(
        "{:>8} {:>22} {:>22}",
        "samples", "of hashes, ms", "of queues and key, ms"
    );
    let mut before: Option<[Duration; 2]> = None;
    for count in [1_000, 10_000, 100_000] {
        let times = [true, false].map(|hashes| fastest(&samples(count, hashes)));
        let grown = |at: usize| match before {
            Some(before) => format!("({:.1}x)", times[at].as_secs_f64() / before[at].as_secs_f64()),
            None => String::new(),
        };
        println!(
            "{count:>8} {:>14.1} {:>7} {:>14.1} {:>7}",
            times[0].as_secs_f64() * 1e3,
            grown(0),
            times[1].as_secs_f64() * 1e3,
            grown(1)
        );
        before = Some(times);
    }
}

fn fastest(samples: &[Sample]) -> Duration {
    let round = || {
        let start = Instant::now();
        let found = black_box(infer(black_box(samples), Some(&Key::VERIFICATION)));
        assert!(
            found.key.is_some() && found.table.is_some(),
            "the device is found out"
        );
        start.elapsed()
    };
    (0..ROUNDS).map(|_| round()).min().expect("there are rounds")
}

/// Samples of IPv6 TCP and UDP, which have the longest hash inputs.
fn samples(count: usize, hashes: bool) -> Vec<Sample> {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let table = IndirectionTable::round_robin(128, 6).expect("six buckets fit 128 entries");
    let mut state = 1_u64;
    let mut random = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let mut sample = |number: usize| {
        let mut end = || {
            let address = u128::from(random()) << 64 | u128::from(random()) | 1 << 127;
            SocketAddr::from((Ipv6Addr::from(address), random() as u16))
        };
        let tuple = Tuple::new(end(), end()).expect("both ends are IPv6");
        let hash = toeplitz.hash(&tuple, HashFields::FourTuple);
        Sample {
            tuple,
            protocol: [Protocol::Tcp, Protocol::Udp][number % 2],
            hash: hashes.then_some(hash),
            queue: Some(table.bucket(hash).index() as u16),
        }
    };
    (0..count).map(&mut sample).collect()
}
