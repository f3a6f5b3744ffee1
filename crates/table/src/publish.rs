//! Replaces a whole table while readers run: the writer publishes, each reader takes what is current before a batch.

use arc_swap::{ArcSwap, Cache};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// A reader's view of a table that one writer changes and may replace: one for each thread, cloned freely.
///
/// A reader takes no lock and writes nothing that others read. Within one call of [`table`](Reader::table) it sees one
/// table; entries that the writer changes in it appear at once, a replacement appears at the next call. A table that was
/// replaced lives until no reader holds it, so a reader that rests for long should be dropped.
pub struct Reader<T> {
    cache: Cache<Arc<ArcSwap<T>>, Arc<T>>,
}

impl<T> Reader<T> {
    /// The table that is current now: to be asked for once a batch.
    #[inline]
    pub fn table(&mut self) -> &T {
        self.cache.load()
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Reader<T> {
        Reader {
            cache: self.cache.clone(),
        }
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// The writer's end.
pub(crate) struct Publisher<T> {
    current: Arc<ArcSwap<T>>,
    /// Replaced tables that readers may still hold. The writer frees them, because giving back much memory takes longer
    /// than a reader of packets may pause.
    retired: Vec<Arc<T>>,
}

impl<T> Publisher<T> {
    pub(crate) fn new(table: Arc<T>) -> Publisher<T> {
        Publisher {
            current: Arc::new(ArcSwap::new(table)),
            retired: Vec::new(),
        }
    }

    pub(crate) fn reader(&self) -> Reader<T> {
        Reader {
            cache: Cache::new(Arc::clone(&self.current)),
        }
    }

    /// Makes `table` what readers take from now on, if it is not that already.
    pub(crate) fn update(&mut self, table: &Arc<T>) {
        if !ptr::eq(Arc::as_ptr(table), Arc::as_ptr(&self.current.load())) {
            self.retired.push(self.current.swap(Arc::clone(table)));
        }
        self.reclaim();
    }

    /// Frees the replaced tables that no reader holds any more, and says how many are left.
    pub(crate) fn reclaim(&mut self) -> usize {
        // A count of one cannot rise again: nobody else has a way to the table.
        self.retired.retain(|table| Arc::strong_count(table) > 1);
        self.retired.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_a_replacement_at_its_next_call_and_the_old_table_lives_until_then() {
        let mut publisher = Publisher::new(Arc::new(1));
        let (mut first, mut second) = (publisher.reader(), publisher.reader());
        assert_eq!((*first.table(), *second.table()), (1, 1));
        publisher.update(&Arc::new(2));
        assert_eq!(publisher.reclaim(), 1);
        assert_eq!(*first.table(), 2);
        assert_eq!(publisher.reclaim(), 1);
        assert_eq!(*second.table(), 2);
        assert_eq!(publisher.reclaim(), 0);
    }
}
