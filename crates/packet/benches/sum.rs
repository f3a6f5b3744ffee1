//! Compares `checksum::sum` with a sum of one 16-bit word a step, over bytes in the first-level cache. Rounds are interleaved;
//! the results are medians and ratios of one run.

use corelane_packet::checksum;
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// Bytes summed per round, and rounds.
const BYTES: usize = 4 << 20;
const ROUNDS: usize = 51;

fn main() {
    println!("bytes of one sum, ns each (median of {ROUNDS} rounds)");
    println!("{:>8} {:>10} {:>10} {:>8}", "bytes", "by words", "sum", "ratio");
    // An IPv4 header, the headers of TCP over IPv6, a small, a full and a long segment.
    for length in [20, 80, 256, 1460, 8960] {
        let bytes: Vec<u8> = (0..length).map(|byte: usize| byte as u8).collect();
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            samples[0].push(nanoseconds_a_sum(&bytes, by_words));
            samples[1].push(nanoseconds_a_sum(&bytes, checksum::sum));
        }
        let [words, sum] = samples.map(median);
        println!("{length:>8} {words:>10.2} {sum:>10.2} {:>8.2}", words / sum);
    }
}

/// RFC 1071, section 4.1.
fn by_words(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let whole: u64 = words
        .by_ref()
        .map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let odd = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    whole + odd
}

fn nanoseconds_a_sum(bytes: &[u8], sum: impl Fn(&[u8]) -> u64) -> f64 {
    let sums = BYTES / bytes.len();
    let start = processor_time();
    for _ in 0..sums {
        black_box(checksum::finished(sum(black_box(bytes))));
    }
    (processor_time() - start).as_nanos() as f64 / sums as f64
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
