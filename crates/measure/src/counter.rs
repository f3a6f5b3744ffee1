//! A counter that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
///
/// The writer loads and stores without a locked instruction, so counting costs as much as with a plain integer. A
/// second writer would lose counts, but not corrupt memory. Give each worker its own block of counters, padded so
/// that no two workers write one cache line, and sum the blocks after the workers have stopped.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `count`; only the thread that owns the counter calls this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Replaces the count by a value that is kept elsewhere and published from time to time; only the thread that owns
    /// the counter calls this.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// The count last written: exact for the writer, and for other threads once the writer has been joined.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_threads_add_up_when_each_has_its_own() {
        let counters: Vec<Counter> = (0..4).map(|_| Counter::new()).collect();
        std::thread::scope(|scope| {
            for counter in &counters {
                scope.spawn(|| (0..10_000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counters.iter().map(Counter::get).sum::<u64>(), 120_000);
    }
}
