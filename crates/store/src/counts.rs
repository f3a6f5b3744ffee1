//! What a partition counts.

/// Counts of a partition. Those of events only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items, also expired and flushed ones whose memory is not reclaimed.
    pub items: u64,
    /// Bytes of memory of these items, with headers and padding.
    pub item_bytes: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    /// Items that were stored.
    pub stored: u64,
    /// Items that were evicted: neither expired nor flushed.
    pub evicted: u64,
    /// Those of them that were never read.
    pub evicted_unread: u64,
    /// Those of them that were to be [kept](crate::Partition::keep_evictions) and found no room.
    pub evictions_not_kept: u64,
    /// Expired items that were reclaimed.
    pub expired: u64,
    /// Those of them that were never read.
    pub expired_unread: u64,
    /// Those of them that were found when they were looked for.
    pub found_expired: u64,
    /// Flushed items that were reclaimed.
    pub flushed: u64,
    /// Those of them that were found when they were looked for.
    pub found_flushed: u64,
    /// Reservations that were evicted: values that had not arrived when their memory was needed.
    pub reservations_evicted: u64,
    /// Bytes that eviction and compaction copied.
    pub copied_bytes: u64,
    /// Buckets of the index.
    pub buckets: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that are free.
    pub free_segments: u64,
    /// Those that are not used, so that less memory is: [`limit`](crate::Partition::limit).
    pub withheld_segments: u64,
    /// Segments of the index.
    pub index_segments: u64,
    /// Full segments of items that were not read yet.
    pub small_segments: u64,
    /// Full segments of items that were read.
    pub main_segments: u64,
    /// Full segments of which less than half is alive.
    pub sparse_segments: u64,
}

impl Counts {
    /// The events after `earlier`; what is counted now is as it is.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            stored: self.stored - earlier.stored,
            evicted: self.evicted - earlier.evicted,
            evicted_unread: self.evicted_unread - earlier.evicted_unread,
            evictions_not_kept: self.evictions_not_kept - earlier.evictions_not_kept,
            expired: self.expired - earlier.expired,
            expired_unread: self.expired_unread - earlier.expired_unread,
            found_expired: self.found_expired - earlier.found_expired,
            flushed: self.flushed - earlier.flushed,
            found_flushed: self.found_flushed - earlier.found_flushed,
            reservations_evicted: self.reservations_evicted - earlier.reservations_evicted,
            copied_bytes: self.copied_bytes - earlier.copied_bytes,
            ..*self
        }
    }
}
