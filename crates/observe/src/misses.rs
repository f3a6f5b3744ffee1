//! Misses of the last-level cache by one thread, counted by hardware between `resume` and `pause`.

use nix::unistd::gettid;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use crate::ObserveError;
use crate::perf::{Event, Privilege};

/// The counter of the thread that made it.
#[derive(Debug)]
pub struct CacheMisses {
    counter: Counter,
}

impl CacheMisses {
    /// A counter of the calling thread's misses in user mode, at rest.
    ///
    /// # Errors
    /// [`ObserveError::Refused`] if there are no hardware counters, as in most virtual machines;
    /// [`ObserveError::Forbidden`] if they may not be used.
    pub fn of_this_thread() -> Result<Self, ObserveError> {
        const EVENT: Event<'_> = Event {
            name: "cache misses",
            needs: "a CPU whose hardware counters the kernel sees (a virtual machine often hides them)",
            privilege: Privilege::UserOfProcess,
        };
        let place = format!("thread {} of process {}", gettid(), std::process::id());
        let counter = Builder::new(Hardware::CACHE_MISSES)
            .observe_self()
            .any_cpu()
            .exclude_kernel(true)
            .enabled(false)
            .build()
            .map_err(|cause| EVENT.refused(&place, &cause))?;
        Ok(Self { counter })
    }

    /// Starts counting. A counter that cannot be resumed stays stopped, and [`read`](Self::read) shows no misses.
    pub fn resume(&mut self) {
        let _ = self.counter.enable();
    }

    /// Stops counting.
    pub fn pause(&mut self) {
        let _ = self.counter.disable();
    }

    /// Misses so far; `None` if the kernel did not report them.
    pub fn read(&mut self) -> Option<u64> {
        self.counter.read().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_cache_holds_is_missed_or_the_machine_says_why_it_cannot_tell() {
        let mut misses = match CacheMisses::of_this_thread() {
            Ok(misses) => misses,
            Err(error) => {
                assert!(error.to_string().contains("cache misses"), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        // 256 MiB, larger than nearly every cache; one line at a time, in steps larger than the hardware prefetches.
        let memory = vec![1_u8; 256 << 20];
        misses.resume();
        let sum: u64 = (0..1 << 20)
            .map(|line: usize| u64::from(memory[line * 64 * 4097 % memory.len()]))
            .sum();
        misses.pause();
        assert_eq!(sum, 1 << 20);
        assert!(misses.read().unwrap() > 1 << 16);
    }
}
