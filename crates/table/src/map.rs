//! A map with one writer and any number of [`Reader`]s. A whole table can be replaced while readers run: the writer
//! publishes it, and each reader loads the current table before a batch.

use crate::memory::MemoryError;
use arc_swap::{ArcSwap, Cache};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// A reader's view of a table that one writer changes and may replace: one for each thread, cloned freely.
///
/// A reader takes no lock and writes nothing that others read. Within one call of [`table`](Reader::table) it sees one
/// table; entries that the writer changes in it appear at once, a replacement appears at the next call. A replaced
/// table is kept until no reader holds it, so an idle reader should be dropped.
pub struct Reader<T> {
    cache: Cache<Arc<ArcSwap<T>>, Arc<T>>,
}

impl<T> Reader<T> {
    /// The current table; call once per batch.
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

/// A map with one writer (the owner of this value) and any number of concurrent [`Reader`]s.
///
/// Used as [`ExactMap`](crate::ExactMap), [`PrefixMap`](crate::PrefixMap), [`AddressMap`](crate::AddressMap) and
/// [`FlowMap`](crate::FlowMap).
pub struct Map<W: Writer> {
    pub(crate) writer: W,
    current: Arc<ArcSwap<W::Table>>,
    /// Replaced tables that readers may still hold. The writer frees them, because freeing much memory takes longer
    /// than a packet reader may pause.
    retired: Vec<Arc<W::Table>>,
}

/// The changes of one kind of map. In a private module, so that no other type implements it.
pub trait Writer {
    /// The readers' view.
    type Table;
    /// The keys.
    type Key;
    /// The values.
    type Value;

    /// The current table; another one after it has grown.
    fn table(&self) -> &Arc<Self::Table>;

    /// The number of entries.
    fn len(&self) -> usize;

    /// Bytes of the table and of the writer's state of comparable size.
    fn memory_bytes(&self) -> usize;

    /// See [`Map::insert`].
    fn insert(&mut self, key: Self::Key, value: Self::Value) -> Result<Option<Self::Value>, MemoryError>;

    /// See [`Map::remove`].
    fn remove(&mut self, key: Self::Key) -> Option<Self::Value>;

    /// See [`Map::iter`].
    fn iter(&self) -> impl Iterator<Item = (Self::Key, Self::Value)>;
}

impl<W: Writer> Map<W> {
    pub(crate) fn of_writer(writer: W) -> Map<W> {
        Map {
            current: Arc::new(ArcSwap::new(Arc::clone(writer.table()))),
            writer,
            retired: Vec::new(),
        }
    }

    /// A view for one more thread.
    #[must_use]
    pub fn reader(&self) -> Reader<W::Table> {
        Reader {
            cache: Cache::new(Arc::clone(&self.current)),
        }
    }

    /// The table as it is now, for the writer's own lookups.
    #[must_use]
    pub fn table(&self) -> &W::Table {
        self.writer.table()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory for its entries, readers' and writer's, without what the kernel has not provided yet.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }

    /// Maps a key to a value; returns the previous value.
    ///
    /// # Errors
    /// If the map must grow and there is no memory for it; the map is then unchanged.
    pub fn insert(&mut self, key: W::Key, value: W::Value) -> Result<Option<W::Value>, MemoryError> {
        self.change(|writer| writer.insert(key, value))
    }

    /// Removes a key, and returns its value. The addresses of a removed prefix then map to the value of the enclosing
    /// prefix.
    pub fn remove(&mut self, key: W::Key) -> Option<W::Value> {
        self.change(|writer| writer.remove(key))
    }

    /// Every key and its value, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (W::Key, W::Value)> {
        self.writer.iter()
    }

    /// Replaces all entries by those of another map, atomically for readers of this one: a batch sees the old map or
    /// the new one, never parts of both. Readers of the other map see no more changes.
    pub fn replace(&mut self, other: Map<W>) {
        self.change(|writer| *writer = other.writer);
    }

    /// Frees replaced tables that no reader holds any more, and returns how many are still held. Every change does this
    /// too.
    pub fn reclaim(&mut self) -> usize {
        // A count of one cannot rise again: there is no other reference to the table.
        self.retired.retain(|table| Arc::strong_count(table) > 1);
        self.retired.len()
    }

    /// Runs a change of the writer, and publishes the resulting table if it is a new one.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut W) -> T) -> T {
        let result = change(&mut self.writer);
        let table = self.writer.table();
        if !ptr::eq(Arc::as_ptr(table), Arc::as_ptr(&self.current.load())) {
            self.retired.push(self.current.swap(Arc::clone(table)));
        }
        self.reclaim();
        result
    }
}

impl<W: Writer> fmt::Debug for Map<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Map");
        fields
            .field("len", &self.len())
            .field("memory_bytes", &self.memory_bytes());
        fields.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose table is a number, which every insertion replaces.
    struct Number(Arc<u32>);

    impl Writer for Number {
        type Table = u32;
        type Key = ();
        type Value = u32;

        fn table(&self) -> &Arc<u32> {
            &self.0
        }

        fn len(&self) -> usize {
            1
        }

        fn memory_bytes(&self) -> usize {
            0
        }

        fn insert(&mut self, _key: (), value: u32) -> Result<Option<u32>, MemoryError> {
            self.0 = Arc::new(value);
            Ok(None)
        }

        fn remove(&mut self, _key: ()) -> Option<u32> {
            None
        }

        fn iter(&self) -> impl Iterator<Item = ((), u32)> {
            std::iter::empty()
        }
    }

    #[test]
    fn a_reader_sees_a_replacement_at_its_next_call_and_the_old_table_lives_until_then() {
        let mut map = Map::of_writer(Number(Arc::new(1)));
        let (mut first, mut second) = (map.reader(), map.reader());
        assert_eq!((*first.table(), *second.table()), (1, 1));
        map.insert((), 2).unwrap();
        assert_eq!(map.reclaim(), 1);
        assert_eq!(*first.table(), 2);
        assert_eq!(map.reclaim(), 1);
        assert_eq!(*second.table(), 2);
        assert_eq!(map.reclaim(), 0);
    }
}
