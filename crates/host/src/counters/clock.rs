//! How fast a CPU's clock really runs.
//!
//! What enters: the time a chain of dependent additions and rotations takes, or the text of `/proc/cpuinfo`. What leaves:
//! a rate in Hz that says where it came from.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::tree::Tree;

const CPUINFO: &str = "/proc/cpuinfo";

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
    /// How it was found.
    pub method: ClockMethod,
    /// The CPU it holds for; `None` where the system does not say which one ran.
    pub cpu: Option<u32>,
    /// Why the rate is unknown.
    pub unknown_because: Option<String>,
}

/// Where a clock rate came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMethod {
    /// A chain of dependent instructions of known length was timed. A lower bound: whatever else ran on the CPU or its
    /// sibling makes it smaller.
    TimedChain,
    /// The kernel says so in `/proc/cpuinfo`. In many virtual machines that is a nominal rate that never changes.
    CpuInfo,
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
            method: ClockMethod::TimedChain,
            cpu: cpu.filter(|before| current_cpu() == Some(*before)),
            unknown_because: (!known).then(|| "the monotonic clock did not advance".to_owned()),
        }
    }

    /// Reads what the kernel says about `cpu` in `/proc/cpuinfo`.
    pub fn read(cpu: u32) -> Self {
        Tree::machine()
            .text(CPUINFO)
            .and_then(|text| Self::parse(&text, cpu))
            .unwrap_or_else(|error| Self {
                hertz: None,
                method: ClockMethod::CpuInfo,
                cpu: Some(cpu),
                unknown_because: Some(error.to_string()),
            })
    }

    /// Reads the `cpu MHz` of one CPU in the text of `/proc/cpuinfo`.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] when the text has no such line for that CPU: Arm kernels write none.
    pub fn parse(text: &str, cpu: u32) -> Result<Self, HostError> {
        let value = |line: &str, name: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        let mut of_cpu = false;
        for line in text.lines() {
            if let Some(number) = value(line, "processor") {
                of_cpu = number == cpu.to_string();
            }
            let rate: Option<f64> = value(line, "cpu MHz").and_then(|text| text.parse().ok());
            if let (true, Some(megahertz)) = (of_cpu, rate) {
                return Ok(Self {
                    hertz: Some(megahertz * 1e6),
                    method: ClockMethod::CpuInfo,
                    cpu: Some(cpu),
                    unknown_because: None,
                });
            }
        }
        Err(HostError::Missing {
            place: CPUINFO,
            what: format!("cpu MHz line for CPU {cpu}"),
        })
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

    const CPUINFO_TEXT: &str = "\
processor\t: 0
cpu MHz\t\t: 2596.118

processor\t: 1
model name\t: x
cpu MHz\t\t: 3100.5
";

    #[test]
    fn the_kernels_rate_is_that_of_the_cpu_asked_for() {
        let rate = ClockRate::parse(CPUINFO_TEXT, 1).unwrap();
        assert_eq!((rate.hertz, rate.cpu), (Some(3_100_500_000.0), Some(1)));
        assert_eq!(rate.method, ClockMethod::CpuInfo);
        assert!(ClockRate::parse(CPUINFO_TEXT, 2).is_err());
    }

    #[test]
    fn an_unknown_rate_says_why() {
        let rate = ClockRate::read(u32::MAX);
        assert_eq!(rate.hertz, None);
        assert!(rate.unknown_because.unwrap().contains("cpu MHz"));
    }

    #[test]
    fn a_measured_rate_is_that_of_a_machine_of_this_century() {
        let rate = ClockRate::measure(Duration::from_millis(5));
        let hertz = rate.hertz.unwrap();
        assert!((2e8..1e10).contains(&hertz), "{hertz}");
    }
}
