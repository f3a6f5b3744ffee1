//! The lag of a bare loop of `clock_nanosleep(2)` on this CPU, as a reference for the schedule of `load http`.
//!
//! Arguments: sleeps per second, seconds. Output: one number, the 99th percentile of the lag in nanoseconds.

use corelane_measure::histogram::Histogram;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::time::Duration;

fn main() {
    let numbers: Vec<f64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let [per_second, seconds] = numbers[..] else {
        // Cargo also runs benchmarks without arguments: then there is nothing to measure.
        println!("usage: nanosleep SLEEPS_A_SECOND SECONDS");
        return;
    };
    // As in the workers: the kernel must not delay timers to coalesce them.
    prctl::set_timerslack(1).expect("a thread may always lower its own timer slack");
    let mut lag = Histogram::new();
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock"));
    let start = now();
    for number in 1..(per_second * seconds) as u64 {
        let due = start + Duration::from_secs_f64(number as f64 / per_second);
        if due > now() {
            let flags = ClockNanosleepFlags::TIMER_ABSTIME;
            // A signal ends a sleep early; the lag is then 0.
            let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &TimeSpec::from_duration(due));
        }
        lag.record(now().saturating_sub(due).as_nanos() as u64);
    }
    println!("{}", lag.percentile(99.0).unwrap_or_default());
}
