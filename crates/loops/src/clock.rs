//! Measures the actual clock rate of a CPU.
//!
//! Input: the run time of a chain of dependent additions and rotations. Output: a rate in Hz. It is a lower bound,
//! because other work on the CPU or its sibling lowers it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;
use serde::{Deserialize, Serialize};

/// Steps per timed run: some 50 µs at 3 GHz. That is long compared with reading the clock (tens of ns) and short
/// compared with a tick, so most runs are not interrupted.
const STEPS: u64 = 80_000;

/// Cycles per step: a 64-bit addition and a rotation by a constant, each dependent on the previous one and each one
/// cycle on x86-64 since 2008 and on 64-bit Arm (uops.info; Arm's Neoverse software optimisation guides).
const CYCLES_A_STEP: u64 = 2;

/// The rate of a CPU's clock at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockRate {
    /// Cycles per second; `None` if the measurement failed, see `unknown_because`.
    pub hertz: Option<f64>,
    /// The CPU measured; `None` if the system does not report which CPU ran.
    pub cpu: Option<u32>,
    /// Why the rate is unknown.
    pub unknown_because: Option<String>,
}

impl ClockRate {
    /// Times a chain of dependent instructions on the calling thread's CPU for `duration`, and uses the fastest run.
    /// Pin the thread first. An idle CPU needs some milliseconds to reach its rate: measure after load, or for at least
    /// 10 ms.
    pub fn measure(duration: Duration) -> Self {
        let cpu = current_cpu();
        let start = Instant::now();
        let mut fastest = Duration::MAX;
        loop {
            let run = Instant::now();
            black_box(chain(black_box(1), black_box(STEPS)));
            fastest = fastest.min(run.elapsed());
            if start.elapsed() >= duration {
                break;
            }
        }
        let hertz = (STEPS * CYCLES_A_STEP) as f64 / fastest.as_secs_f64();
        let known = fastest > Duration::ZERO;
        Self {
            hertz: known.then_some(hertz),
            cpu: cpu.filter(|before| current_cpu() == Some(*before)),
            unknown_because: (!known).then(|| "the monotonic clock did not advance".to_owned()),
        }
    }
}

/// `steps` times an addition and a rotation of the sum. No compiler can shorten it: a rotation carries bits from the
/// top to the bottom, so the whole is neither linear nor a polynomial.
fn chain(start: u64, steps: u64) -> u64 {
    let mut value = start;
    for _ in 0..steps {
        value = value.wrapping_add(start).rotate_left(7);
    }
    value
}

fn current_cpu() -> Option<u32> {
    sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_tests::until;

    #[test]
    fn a_measured_rate_is_that_of_a_machine_of_this_century() {
        // Each run may be interrupted on a busy machine.
        until("a rate of 200 MHz", || {
            let hertz = ClockRate::measure(Duration::from_millis(5)).hertz.unwrap();
            assert!(hertz < 1e10, "{hertz}");
            hertz >= 2e8
        });
    }
}
