//! A thread's own CPU time, and its time on a run queue.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::time::{ClockId, clock_gettime};

use super::kernel::kernel_counters;
use crate::HostError;

const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Reads the calling thread's own times. Use it only on the thread that created it.
#[derive(Debug)]
pub struct ThreadClock {
    schedstat: Option<File>,
}

kernel_counters! {
    /// Both times since the thread started.
    pub struct ThreadTime {
        /// Nanoseconds on a CPU.
        cpu_ns: "sum_exec_runtime",
        /// Nanoseconds ready but not running; 0 if the kernel does not report it (`CONFIG_SCHED_INFO`).
        waited_ns: "run_delay",
    }
}

impl ThreadClock {
    /// The clock of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            schedstat: File::open(SCHEDSTAT).ok(),
        }
    }

    /// Reads both times: two system calls, about a microsecond.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] on a kernel without per-thread clocks.
    pub fn read(&self) -> Result<ThreadTime, HostError> {
        let read = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .map_err(HostError::process(std::process::id(), "CPU time of a thread"))?;
        Ok(ThreadTime {
            cpu_ns: read.tv_sec().cast_unsigned() * 1_000_000_000 + read.tv_nsec().cast_unsigned(),
            waited_ns: self.waited().unwrap_or(0),
        })
    }

    /// The second of three numbers is the time on a run queue (`Documentation/scheduler/sched-stats.rst`).
    fn waited(&self) -> Option<u64> {
        // Three numbers of 64 bits and two spaces.
        let mut text = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use corelane_measure::counters::Counters;

    use super::*;

    #[test]
    fn a_thread_that_works_has_cpu_time_and_one_that_rests_has_less() {
        let clock = ThreadClock::of_this_thread();
        let before = clock.read().unwrap();
        let mut sum = 0_u64;
        while clock.read().unwrap().since(&before).cpu_ns < 2_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let rested = std::thread::spawn(|| ThreadClock::of_this_thread().read().unwrap());
        assert!(rested.join().unwrap().cpu_ns < clock.read().unwrap().cpu_ns);
    }
}
