//! Failures by cause, as published by a worker: takes the engine's counts, returns named counts.

use corelane_worker::Counter;
use corelane_worker::engine::FailureCounts;
use std::collections::BTreeMap;

/// One counter per cause.
#[derive(Debug, Default)]
pub(crate) struct CauseCounters([Counter; FailureCounts::CAUSES]);

impl CauseCounters {
    /// Copies the counts of an engine.
    pub(crate) fn set(&self, counts: &FailureCounts) {
        for (counter, (_, count)) in self.0.iter().zip(counts.by_cause()) {
            counter.set(count);
        }
    }

    /// The non-zero causes.
    pub(crate) fn named(&self) -> BTreeMap<String, u64> {
        named(self.by_cause())
    }

    /// All causes with their counts.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = FailureCounts::default().by_cause().into_iter();
        names
            .zip(&self.0)
            .map(|((cause, _), counter)| (cause, counter.get()))
    }
}

/// Non-zero counts, by name.
pub(crate) fn named<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
