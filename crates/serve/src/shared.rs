//! State that one thread writes and another reads, and counts by name and shares for documents.

use corelane_measure::share::Share;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks state whose every update is complete in itself, so that a panic of another thread leaves it valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Non-zero counts, by name.
pub(crate) fn named<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    occurred(counts.into_iter().map(|(name, count)| (name.to_owned(), count)))
}

/// Non-zero counts by cause.
pub(crate) fn occurred<K: Ord>(counts: impl IntoIterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Sums of counts by cause.
pub(crate) fn summed<'a, K: Ord + Clone + 'a>(
    counts: impl IntoIterator<Item = (&'a K, &'a u64)>,
) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (cause, count) in counts {
        *sums.entry(cause.clone()).or_default() += count;
    }
    sums
}

/// A share of samples.
pub(crate) fn share(hits: u64, samples: u64) -> Share {
    Share { hits, samples }
}
