//! Failures by cause, as a worker publishes them: the engine's counts in, named counts out.

use corelane_worker::Counter;
use corelane_worker::engine::FailureCounts;
use std::collections::BTreeMap;

/// One counter a cause.
#[derive(Debug, Default)]
pub(crate) struct CauseCounters([Counter; FailureCounts::CAUSES]);

impl CauseCounters {
    /// Takes over what an engine counted.
    pub(crate) fn set(&self, counts: &FailureCounts) {
        for (counter, (_, count)) in self.0.iter().zip(counts.by_cause()) {
            counter.set(count);
        }
    }

    /// The causes that there were.
    pub(crate) fn named(&self) -> BTreeMap<String, u64> {
        let names = FailureCounts::default().by_cause();
        named(names.iter().map(|(cause, _)| *cause).zip(&self.0))
    }

    /// Failures of all causes.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}

/// Counters that are not at zero, under their names.
pub(crate) fn named<'a>(counters: impl Iterator<Item = (&'a str, &'a Counter)>) -> BTreeMap<String, u64> {
    counters
        .map(|(name, counter)| (name.to_owned(), counter.get()))
        .filter(|(_, count)| *count > 0)
        .collect()
}
