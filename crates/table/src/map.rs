//! A map with its one writer: changes go in here, [`Reader`]s see them.

use crate::memory::MemoryError;
use crate::publish::{Publisher, Reader};
use std::fmt;
use std::sync::Arc;

/// A map with one writer, which is whoever has this, and any number of [`Reader`]s, which go on while it changes.
///
/// Used as [`ExactMap`](crate::ExactMap), [`PrefixMap`](crate::PrefixMap) and [`FlowMap`](crate::FlowMap).
pub struct Map<W: Writer> {
    writer: W,
    publisher: Publisher<W::Table>,
}

/// What a kind of map does to its tables. In a private module, so that no other type implements it.
pub trait Writer {
    /// What readers see.
    type Table;

    /// The table of now: another one after the writer outgrew the one before.
    fn table(&self) -> &Arc<Self::Table>;

    /// How many entries there are.
    fn len(&self) -> usize;

    /// Bytes of the table and of what the writer keeps as large as it.
    fn memory_bytes(&self) -> usize;
}

impl<W: Writer> Map<W> {
    pub(crate) fn of_writer(writer: W) -> Map<W> {
        let publisher = Publisher::new(Arc::clone(writer.table()));
        Map { writer, publisher }
    }

    /// A view for one more thread.
    #[must_use]
    pub fn reader(&self) -> Reader<W::Table> {
        self.publisher.reader()
    }

    /// The table as it is now, for the writer's own lookups.
    #[must_use]
    pub fn table(&self) -> &W::Table {
        self.writer.table()
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory for its entries, readers' and writer's, without what the kernel has not provided yet.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }

    /// Takes over the entries of another map, all at once for readers of this one: a batch sees the old map or the new
    /// one, never parts of both. Readers of the other map see no more changes.
    pub fn replace(&mut self, other: Map<W>) {
        self.writer = other.writer;
        self.publisher.update(self.writer.table());
    }

    /// Frees replaced tables that no reader holds any more, and says how many are still held. Every change does this too.
    pub fn reclaim(&mut self) -> usize {
        self.publisher.reclaim()
    }

    pub(crate) fn writer(&self) -> &W {
        &self.writer
    }

    /// Lets the writer change its table, and publishes the one that it has then.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut W) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let result = change(&mut self.writer);
        self.publisher.update(self.writer.table());
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
