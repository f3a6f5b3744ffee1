//! One owner's share of the store: memory, index and log, and how items are found.

use crate::bucket::LARGEST_REGION;
use crate::classes::{Class, Classes};
use crate::counts::Counts;
use crate::evictions::{Evicted, Evictions};
use crate::hash::Hash;
use crate::index::{Index, Slot, count_access};
use crate::item::{Head, Item, ItemMut, LINE, PREFETCHED_LINES, key_at};
use crate::memory::Memory;
use crate::reader::Reader;
use crate::segments::{NONE, Queue, Segments, Use};
use crate::sweep::{Emptying, Sweep, Withheld};
use corelane_table::prefetch;
use std::sync::Arc;
use thiserror::Error;

/// Segments that a region needs at least: two of the index, two that are appended to, one in reserve, and three to evict.
const FEWEST_SEGMENTS: usize = 8;

/// How a partition is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The seed of the hashes that are passed to it.
    pub seed: u64,
    /// Bytes of a segment: a power of two from 4 KiB to 64 MiB.
    pub segment: usize,
    /// Whether items are evicted when memory is full. Otherwise new ones are refused, and only the memory of items that are gone
    /// is used again.
    pub evicts: bool,
}

impl Default for Settings {
    /// Seed 0, segments of 128 KiB, and eviction.
    fn default() -> Settings {
        Settings {
            seed: 0,
            segment: 128 << 10,
            evicts: true,
        }
    }
}

/// Why there is no partition.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// Fewer than 8 segments.
    #[error("{bytes} bytes are less than {FEWEST_SEGMENTS} segments of {segment} bytes")]
    TooSmall {
        /// Bytes of the region.
        bytes: usize,
        /// Bytes of a segment.
        segment: usize,
    },
    /// More than the index can name.
    #[error("{0} bytes are more than 512 GiB")]
    TooLarge(usize),
    /// Not a power of two from 4 KiB to 64 MiB.
    #[error("segments of {0} bytes: use a power of two from 4 KiB to 64 MiB")]
    Segment(usize),
}

/// A bounded store of items, of one owner. Its memory is a region; no other memory is allocated after [`new`](Partition::new).
pub struct Partition {
    pub(crate) memory: Memory,
    pub(crate) seed: u64,
    pub(crate) evicts: bool,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    /// The segments that new items of each home are appended to, or `NONE`.
    pub(crate) open: [u32; 2],
    /// Segments with items that were opened before this are flushed.
    pub(crate) epoch: u32,
    /// Segments with items of earlier epochs.
    pub(crate) stale: usize,
    /// The second of a flush that was announced.
    pub(crate) flush_at: Option<u32>,
    /// The counts of events and bytes; the others are computed.
    pub(crate) counts: Counts,
    /// Those by class, if they are counted.
    pub(crate) classes: Option<Classes>,
    pub(crate) sweep: Sweep,
    pub(crate) emptying: Option<Emptying>,
    /// The segment of a value that is getting more segments, or `NONE`.
    pub(crate) extending: u32,
    /// Evicted items that are not taken.
    pub(crate) evictions: Evictions,
    /// Free segments that are not used, and how many shall be.
    pub(crate) withheld: Withheld,
    /// Bytes that may be copied instead of evicted.
    pub(crate) credit: i64,
}

impl Partition {
    /// An empty store in this memory.
    ///
    /// # Errors
    /// If the sizes do not suit.
    pub fn new(memory: Memory, settings: &Settings) -> Result<Partition, Unusable> {
        let (bytes, segment) = (memory.bytes().len(), settings.segment);
        if !segment.is_power_of_two() || !(4 << 10..=64 << 20).contains(&segment) {
            return Err(Unusable::Segment(segment));
        }
        if bytes / segment < FEWEST_SEGMENTS {
            return Err(Unusable::TooSmall { bytes, segment });
        }
        if bytes as u64 > LARGEST_REGION {
            return Err(Unusable::TooLarge(bytes));
        }
        let (count, shift) = (bytes / segment, segment.trailing_zeros());
        let mut segments = Segments::new(count, shift);
        let first = segments
            .take(Use::Index, Queue::Small, 0)
            .expect("all segments are free");
        let mut partition = Partition {
            memory,
            seed: settings.seed,
            evicts: settings.evicts,
            index: Index::new(first, shift, count),
            segments,
            open: [NONE; 2],
            epoch: 0,
            stale: 0,
            flush_at: None,
            counts: Counts::default(),
            classes: None,
            sweep: Sweep::default(),
            emptying: None,
            extending: NONE,
            evictions: Evictions::default(),
            withheld: Withheld::default(),
            credit: 0,
        };
        partition.zero(first);
        Ok(partition)
    }

    /// A reader of this partition for other threads.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.memory.share(), Arc::clone(&self.index.published))
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let segments = &self.segments;
        Counts {
            items: self.index.items(),
            buckets: self.index.buckets(),
            segment_bytes: segments.bytes() as u64,
            segments: segments.count() as u64,
            free_segments: (segments.free() - self.withheld.now) as u64,
            withheld_segments: self.withheld.now as u64,
            index_segments: self.index.segments() as u64,
            small_segments: segments.queued(Queue::Small) as u64,
            main_segments: segments.queued(Queue::Main) as u64,
            sparse_segments: segments.queued(Queue::Sparse) as u64,
            ..self.counts
        }
    }

    /// Counts the items that are stored from now on by class; those of other classes than the first `count` are not counted. To be called
    /// before any is stored: it allocates.
    pub fn count_classes(&mut self, count: usize, class: Class) {
        self.classes = Some(Classes::new(count, class));
    }

    /// Items by class, expired and flushed ones whose memory is not reclaimed included; none if they are not counted.
    #[must_use]
    pub fn items_by_class(&self) -> &[u32] {
        self.classes.as_ref().map_or(&[], |classes| &classes.items)
    }

    pub(crate) fn zero(&mut self, segment: u32) {
        self.memory
            .zero(self.segments.start(segment), self.segments.bytes());
    }

    /// Keeps items that are evicted from now on until they are taken, up to 4,096, or does not. This allocates.
    pub fn keep_evictions(&mut self, are_kept: bool) {
        self.evictions.are_kept = are_kept;
    }

    /// Takes the items that were evicted.
    pub fn take_evictions(&mut self) -> Vec<Evicted> {
        self.evictions.take()
    }

    /// Uses no more than `bytes` of the memory, or 8 segments, or twice what the index has, from when [`tidy`](Partition::tidy) has made the others free. Where nothing
    /// is evicted, they are withheld as they become free.
    pub fn limit(&mut self, bytes: usize) {
        let (count, most) = (self.segments.count(), bytes / self.segments.bytes());
        self.withheld.target = count - most.clamp(FEWEST_SEGMENTS, count);
        self.withheld.now = self.withheld.now.min(self.withheld.target);
    }

    /// Segments that may be used.
    pub(crate) fn usable(&self) -> usize {
        self.segments.count() - self.withheld.now
    }

    /// Starts the load of the index line of a key.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        self.index.prefetch(&self.memory, hash.value());
    }

    /// Starts the load of the first lines of the item of a key, whose index line is loaded.
    #[inline]
    pub fn prefetch_item(&self, hash: Hash) {
        let memory = &self.memory;
        if let Some(location) = self.index.candidate(memory, hash.value()) {
            for line in 0..PREFETCHED_LINES {
                if let Some(byte) = memory.bytes().get(location + line * LINE) {
                    prefetch(byte);
                }
            }
        }
    }

    /// The item of a key, to be changed in place. Its access is counted for eviction; its attributes stay as they are.
    #[inline]
    pub fn read(&mut self, hash: Hash, key: &[u8], now: u32) -> Option<ItemMut<'_>> {
        let (slot, location, head) = self.find_or_end(hash, key, now)?;
        let memory = &mut self.memory;
        count_access(memory, slot);
        Some(ItemMut {
            head,
            memory,
            segments: &mut self.segments,
            location,
            published: &self.index.published,
            hash: hash.value(),
        })
    }

    /// The item of a key; no access is counted.
    #[inline]
    pub fn peek(&self, hash: Hash, key: &[u8], now: u32) -> Option<Item<'_>> {
        let (_, location, head) = self.find_alive(hash, key, now)?;
        Some(Item::of(&head, &self.memory, &self.segments, location))
    }

    /// The item of a key, to be changed in place; no access is counted.
    #[inline]
    pub fn change(&mut self, hash: Hash, key: &[u8], now: u32) -> Option<ItemMut<'_>> {
        let (_, location, head) = self.find_or_end(hash, key, now)?;
        Some(ItemMut {
            head,
            memory: &mut self.memory,
            segments: &mut self.segments,
            location,
            published: &self.index.published,
            hash: hash.value(),
        })
    }

    /// The slot of a key and the location of its item, which may have expired or be flushed.
    #[inline(always)]
    pub(crate) fn find(&self, hash: Hash, key: &[u8]) -> Option<(Slot, usize)> {
        let memory = &self.memory;
        self.index
            .find(memory, hash.value(), |location| key_at(memory, location) == key)
    }

    #[inline(always)]
    pub(crate) fn find_alive(&self, hash: Hash, key: &[u8], now: u32) -> Option<(Slot, usize, Head)> {
        let (slot, location) = self.find(hash, key)?;
        let head = Head::read(&self.memory, location);
        self.is_alive(&head, location, now)
            .then_some((slot, location, head))
    }

    /// As [`find_alive`](Partition::find_alive). An item that has expired or is flushed is reclaimed, and the access to it counted.
    #[inline(always)]
    fn find_or_end(&mut self, hash: Hash, key: &[u8], now: u32) -> Option<(Slot, usize, Head)> {
        let (slot, location) = self.find(hash, key)?;
        let head = Head::read(&self.memory, location);
        if self.is_alive(&head, location, now) {
            return Some((slot, location, head));
        }
        self.end_found(hash, slot, location, &head, now);
        None
    }

    /// Whether an indexed item is neither expired nor flushed.
    #[inline(always)]
    pub(crate) fn is_alive(&self, head: &Head, location: usize, now: u32) -> bool {
        let expiry = head.attributes.expiry;
        (expiry == 0 || expiry > now)
            && (self.stale == 0 || self.segments[self.segments.of(location)].epoch == self.epoch)
    }
}
