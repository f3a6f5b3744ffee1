//! How far away the headers of a burst are that just arrived: rings and a stride enter, nanoseconds a header leave.

use super::frames::{Rings, Traffic};
use corelane_host::HostError;
use corelane_host::counters::ThreadClock;
use fastrand::Rng;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A byte of every frame that is zero: of the payload, in the frame's line.
const ZERO_BYTE: usize = 60;

/// Receives bursts for `duration` and fetches the headers of each one after the other, in an order that no prefetcher
/// guesses: where the next one is depends on a byte of the one before. Gives the time of one header, the median over
/// the bursts, so that what interrupts the thread does not count.
pub fn nanoseconds(
    stride: usize,
    slots: usize,
    burst: usize,
    traffic: &Traffic,
    random: &mut Rng,
    duration: Duration,
) -> Result<f64, HostError> {
    let mut rings = Rings::new(slots, stride);
    let mut order: Vec<usize> = (0..burst).collect();
    random.shuffle(&mut order);
    let clock = ThreadClock::of_this_thread();
    let (begun, mut times, mut next) = (Instant::now(), Vec::new(), 0);
    while times.is_empty() || begun.elapsed() < duration {
        let arrived = rings.receive(burst, traffic, next);
        next += burst;
        // Reading the order first brings it near, whatever the frames displaced.
        black_box(order.iter().sum::<usize>());
        let before = clock.read()?;
        let started = Instant::now();
        let mut zero = 0;
        for step in 0..burst {
            zero = usize::from(rings.frame(arrived.start + order[step + zero])[ZERO_BYTE]);
        }
        black_box(zero);
        let wall = started.elapsed();
        if clock.read()?.since(&before).waited_ns == 0 {
            times.push(wall.as_nanos() as f64 / burst as f64);
        }
        rings.forward(arrived);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_a_header_takes_time_and_ends() {
        let (mut random, mut order) = (Rng::with_seed(1), Rng::with_seed(2));
        let traffic = Traffic::new(100, &[], &mut random);
        let time = nanoseconds(2048, 256, 64, &traffic, &mut order, Duration::from_millis(1)).unwrap();
        assert!(time > 0.0 && time.is_finite(), "{time}");
    }
}
