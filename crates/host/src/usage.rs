//! Resource usage of this process's own threads: CPU time as the kernel charged it, and resident memory.

use corelane_measure::counters;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use std::fs;

use crate::tree::kibibytes;

counters! {
    /// CPU time of a thread or of the process.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    pub struct Usage {
        /// Seconds in user code.
        pub user_s: f64,
        /// Seconds in the kernel. Interrupts that hit it are charged here or nowhere, depending on the kernel
        /// configuration.
        pub system_s: f64,
    }
}

impl Usage {
    /// User and system time together, seconds.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// The calling thread's CPU time so far (`getrusage(2)`, `RUSAGE_THREAD`); zeros if the kernel does not report it.
#[must_use]
pub fn of_thread() -> Usage {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_THREAD).map(|usage| Usage {
        user_s: seconds(usage.user_time()),
        system_s: seconds(usage.system_time()),
    });
    usage.unwrap_or_default()
}

/// Bytes of resident memory of this process (`VmRSS` of `proc_pid_status(5)`); `None` if the kernel does not report it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS")
}

#[cfg(test)]
mod tests {
    use corelane_measure::counters::Counters;

    use super::*;

    #[test]
    fn what_a_thread_works_is_charged_to_it() {
        let thread = of_thread();
        let mut sum = 0u64;
        while of_thread().since(&thread).total_s() == 0.0 {
            sum = (0..100_000u64).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        assert_ne!(sum, 0);
    }

    #[test]
    fn resident_memory_is_at_least_what_was_touched() {
        let before = resident_bytes().unwrap();
        let touched = vec![1u8; 32 << 20];
        let after = resident_bytes().unwrap();
        assert!(
            after >= before.saturating_add(24 << 20),
            "{before} {after} {}",
            touched.len()
        );
    }
}
