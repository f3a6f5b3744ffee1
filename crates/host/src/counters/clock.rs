//! How fast a CPU's clock really runs.
//!
//! What enters: the time a chain of dependent additions and rotations takes. What leaves: a rate in Hz, a lower bound, as
//! whatever else ran on the CPU or its sibling makes it smaller.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;
use serde::{Deserialize, Serialize};

/// Steps in one timed run: some 50 µs at 3 GHz, long beside reading the clock (tens of ns), short beside a tick, so that
/// most runs are not interrupted.
const STEPS: u64 = 80_000;

/// Cycles of one step: a 64-bit addition and a rotation by a constant, each depending on the one before and each one cycle
/// on x86-64 since 2008 and on 64-bit Arm (uops.info; Arm's Neoverse software optimisation guides).
const CYCLES_A_STEP: u64 = 2;

/// The rate of a CPU's clock at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockRate {
    /// Cycles a second; `None` where no way to know it works, for the reason in `unknown_because`.
    pub hertz: Option<f64>,
    /// The CPU it holds for; `None` where the system does not say which one ran.
    pub cpu: Option<u32>,
    /// Why the rate is unknown.
    pub unknown_because: Option<String>,
}

impl ClockRate {
    /// Times a chain of dependent instructions on the CPU the calling thread is on, for `duration`, and takes the fastest
    /// of its runs. Pin the thread first. A CPU that idled needs some milliseconds to reach its rate: measure after load,
    /// or for 10 ms and more.
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

/// `steps` times an addition and a rotation of the sum. No compiler has a shorter form for it: a rotation carries bits from
/// the top to the bottom, so the whole is neither linear nor a polynomial.
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

    #[test]
    fn a_measured_rate_is_that_of_a_machine_of_this_century() {
        let rate = ClockRate::measure(Duration::from_millis(5));
        let hertz = rate.hertz.unwrap();
        assert!((2e8..1e10).contains(&hertz), "{hertz}");
    }
}
