//! The index: from the hash of a key to the location of its item.
//!
//! The buckets are laid out as [`crate::bucket`] says. The index grows by linear hashing (Litwin, "Linear hashing: a new tool for file
//! and table addressing", VLDB 1980), one bucket at a time; the next bit of the tag splits a bucket, so that no item is read. The chain
//! of a bucket has no holes: the last slot replaces a removed one.
//!
//! Other threads read the index meanwhile: what changes where an item is found is done between [`Published::begin`] and [`Published::end`].

use crate::bucket::{
    self, ACCESSES, ACCESSES_SHIFT, ALIGNMENT, BUCKET, GHOST_BITS, GHOSTS, GHOSTS_SHIFT, LINK, LOCATION,
    LONGEST_CHAIN, MOST_ACCESSES, NEXT, SLOTS, TAG_BITS, TAG_SHIFT, bucket_of, fingerprint, location, next,
    tag, tagged,
};
use crate::memory::{Memory, WORD, Word, Words};
use crate::published::Published;
use corelane_table::prefetch;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The index grows when there are more items than this many per two buckets: 14 bytes per item, and few overflow buckets.
const ITEMS_PER_TWO_BUCKETS: u64 = 9;

/// Why the index needs another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The next bucket.
    Bucket,
    /// Overflow buckets.
    Overflow,
}

/// A slot's address in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The index of a partition; its buckets are in the partition's memory.
pub(crate) struct Index<W = AtomicU64> {
    /// What readers know of it.
    pub(crate) published: Arc<Published<W>>,
    /// The segments with buckets, in the order of the buckets.
    directory: Vec<u32>,
    shift: u32,
    /// Bits of the hash that choose among the buckets of one segment.
    first_bits: u32,
    buckets: u64,
    /// The largest power of two that is at most `buckets`, minus 1.
    mask: u64,
    items: u64,
    /// The first of the overflow buckets that were used and are free; 0 for none.
    free: usize,
    free_buckets: usize,
    /// Overflow buckets that were never used: from here to there.
    fresh: (usize, usize),
    overflow_segments: usize,
    /// The slots of a bucket that is being split.
    splitting: Vec<u64>,
}

fn set_next(memory: &mut impl Words, bucket: usize, to: usize) {
    let ghosts = memory.word(bucket + LINK) & !NEXT;
    memory.set_word(bucket + LINK, ghosts | (to / BUCKET) as u64);
}

/// Empties these words of a bucket.
fn clear(memory: &mut impl Words, bucket: usize, words: RangeInclusive<usize>) {
    words.for_each(|word| memory.set_word(bucket + word * WORD, 0));
}

/// Counts an access, up to 3.
#[inline(always)]
pub(crate) fn count_access(memory: &mut impl Words, slot: Slot) {
    let found = memory.word(slot.0);
    if found & ACCESSES != ACCESSES {
        memory.set_word(slot.0, found + (1 << ACCESSES_SHIFT));
    }
}

/// The accesses that were counted, at most 3.
pub(crate) fn accesses(memory: &impl Words, slot: Slot) -> u64 {
    (memory.word(slot.0) & ACCESSES) >> ACCESSES_SHIFT
}

/// Sets the number of accesses, at most 3.
pub(crate) fn set_accesses(memory: &mut impl Words, slot: Slot, accesses: u64) {
    let others = memory.word(slot.0) & !ACCESSES;
    memory.set_word(slot.0, others | accesses.min(MOST_ACCESSES) << ACCESSES_SHIFT);
}

impl<W: Word> Index<W> {
    /// An index with the buckets of one segment, which is zeroed, of 2^`shift` bytes, in a region of `segments`.
    pub(crate) fn new(first: u32, shift: u32, segments: usize) -> Self {
        let mut directory = Vec::with_capacity(segments);
        directory.push(first);
        let first_bits = shift - BUCKET.trailing_zeros();
        let published = Published::new(shift, segments);
        published.add(0, first);
        published.set_buckets(1 << first_bits);
        Self {
            published: Arc::new(published),
            directory,
            shift,
            first_bits,
            buckets: 1 << first_bits,
            mask: (1 << first_bits) - 1,
            items: 0,
            free: 0,
            free_buckets: 0,
            fresh: (0, 0),
            overflow_segments: 0,
            splitting: Vec::with_capacity(LONGEST_CHAIN * SLOTS),
        }
    }

    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    pub(crate) fn segments(&self) -> usize {
        self.directory.len() + self.overflow_segments
    }

    pub(crate) fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, hash: u64) -> u64 {
        bucket_of(hash, self.buckets, self.mask)
    }

    #[inline(always)]
    fn address(&self, bucket: u64) -> usize {
        let segment = self.directory[(bucket >> self.first_bits) as usize];
        bucket::address(bucket, segment, self.shift)
    }

    #[inline(always)]
    fn tag(&self, hash: u64) -> u64 {
        tag(hash, self.first_bits)
    }

    /// Starts the load of the bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, memory: &Memory, hash: u64) {
        prefetch(&memory.bytes()[self.address(self.bucket_of(hash))]);
    }

    /// The location of the first item in the bucket of a hash, without its overflow buckets, that has its tag.
    #[inline(always)]
    pub(crate) fn candidate(&self, memory: &impl Words, hash: u64) -> Option<usize> {
        let address = self.address(self.bucket_of(hash));
        let bucket = memory.words(address);
        let tagged = tagged(&bucket, self.tag(hash));
        (tagged != 0).then(|| location(bucket[tagged.trailing_zeros() as usize]))
    }

    /// The slot whose location `matches`, among those with the tag of a hash.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        memory: &impl Words,
        hash: u64,
        matches: impl Fn(usize) -> bool,
    ) -> Option<(Slot, usize)> {
        let mut address = self.address(self.bucket_of(hash));
        let tag = self.tag(hash);
        loop {
            let bucket = memory.words(address);
            let mut tagged = tagged(&bucket, tag);
            while tagged != 0 {
                let slot = tagged.trailing_zeros() as usize;
                let found = bucket[slot];
                // An empty slot has the tag 0.
                if found != 0 && matches(location(found)) {
                    return Some((Slot(address + slot * WORD), location(found)));
                }
                tagged &= tagged - 1;
            }
            address = next(bucket[SLOTS]);
            if address == 0 {
                return None;
            }
        }
    }

    /// Whether an item of this hash was evicted lately without an access.
    pub(crate) fn is_ghost(&self, memory: &impl Words, hash: u64) -> bool {
        let ghosts = memory.word(self.address(self.bucket_of(hash)) + LINK) >> GHOSTS_SHIFT;
        let fingerprint = fingerprint(hash);
        (0..GHOSTS).any(|ghost| ghosts >> (ghost * GHOST_BITS) & ((1 << GHOST_BITS) - 1) == fingerprint)
    }

    /// Remembers that an item of this hash was evicted without an access; the oldest ghost of the bucket is forgotten.
    pub(crate) fn add_ghost(&self, memory: &mut impl Words, hash: u64) {
        let at = self.address(self.bucket_of(hash)) + LINK;
        let link = memory.word(at);
        let ghosts = link >> GHOSTS_SHIFT << GHOST_BITS | fingerprint(hash);
        memory.set_word(at, link & NEXT | ghosts << GHOSTS_SHIFT);
    }

    /// Gives the slot of a hash another location.
    pub(crate) fn relocate(&self, memory: &mut impl Words, hash: u64, slot: Slot, to: usize) {
        self.published.begin(hash);
        let others = memory.word(slot.0) & !LOCATION;
        memory.set_word(slot.0, others | (to / ALIGNMENT) as u64);
        self.published.end(hash);
    }

    /// What the index needs before the next insertion.
    pub(crate) fn need(&self, may_grow: bool) -> Option<Need> {
        if self.free == 0 && self.fresh.0 == self.fresh.1 {
            return Some(Need::Overflow);
        }
        let next_is_there = (self.buckets >> self.first_bits) < self.directory.len() as u64;
        (may_grow && self.is_full() && !next_is_there).then_some(Need::Bucket)
    }

    fn is_full(&self) -> bool {
        // Beyond, the tag would have no bit to split by.
        self.items * 2 > self.buckets * ITEMS_PER_TWO_BUCKETS
            && self.buckets >> self.first_bits < 1 << TAG_BITS
    }

    /// Adds a zeroed segment.
    pub(crate) fn add(&mut self, segment: u32, need: Need) {
        match need {
            Need::Bucket => {
                self.published.add(self.directory.len(), segment);
                self.directory.push(segment);
            }
            Need::Overflow => {
                let start = (segment as usize) << self.shift;
                self.fresh = (start, start + (1 << self.shift));
                self.overflow_segments += 1;
            }
        }
    }

    /// Whether the chain of a hash is full and as long as it may be.
    pub(crate) fn is_crowded(&self, memory: &impl Words, hash: u64) -> bool {
        let mut address = self.address(self.bucket_of(hash));
        for _ in 1..LONGEST_CHAIN {
            address = next(memory.word(address + LINK));
            if address == 0 {
                return false;
            }
        }
        memory.word(address + LINK - WORD) != 0
    }

    /// Inserts a location that is not there yet. [`need`](Index::need) was met before, and its chain is not
    /// [crowded](Index::is_crowded).
    pub(crate) fn insert(&mut self, memory: &mut impl Words, hash: u64, at: usize) {
        let slot = self.tag(hash) | (at / ALIGNMENT) as u64;
        let bucket = self.bucket_of(hash);
        self.published.begin(hash);
        self.place(memory, bucket, slot);
        self.published.end(hash);
        self.items += 1;
        if self.is_full() && (self.buckets >> self.first_bits) < self.directory.len() as u64 {
            self.split(memory);
        }
    }

    /// Puts a slot behind the last one of the chain of a bucket.
    fn place(&mut self, memory: &mut impl Words, bucket: u64, slot: u64) {
        let mut address = self.address(bucket);
        loop {
            if let Some(free) = (0..SLOTS).find(|slot| memory.word(address + slot * WORD) == 0) {
                return memory.set_word(address + free * WORD, slot);
            }
            match next(memory.word(address + LINK)) {
                0 => break,
                next => address = next,
            }
        }
        let overflow = self.take_overflow(memory);
        memory.set_word(overflow, slot);
        set_next(memory, address, overflow);
    }

    fn take_overflow(&mut self, memory: &mut impl Words) -> usize {
        if self.free == 0 {
            assert!(self.fresh.0 < self.fresh.1, "an overflow bucket was reserved");
            self.fresh.0 += BUCKET;
            return self.fresh.0 - BUCKET;
        }
        let bucket = self.free;
        self.free = next(memory.word(bucket + LINK));
        self.free_buckets -= 1;
        clear(memory, bucket, 0..=SLOTS);
        bucket
    }

    fn free_overflow(&mut self, memory: &mut impl Words, bucket: usize) {
        set_next(memory, bucket, self.free);
        self.free = bucket;
        self.free_buckets += 1;
    }

    /// Splits the next bucket. Its n items were in at least ⌈n/7⌉ buckets and are now in at most one more, of which two are no
    /// overflow buckets: so the freed ones suffice.
    pub(crate) fn split(&mut self, memory: &mut impl Words) {
        let (old, new) = (self.buckets - (self.mask + 1), self.buckets);
        let mut slots = std::mem::take(&mut self.splitting);
        let primary = self.address(old);
        self.published.begin(old);
        let ghosts = memory.word(primary + LINK) & !NEXT;
        let mut following = primary;
        loop {
            let address = following;
            slots.extend((0..SLOTS).map(|slot| memory.word(address + slot * WORD)));
            following = next(memory.word(address + LINK));
            if address != primary {
                self.free_overflow(memory, address);
            }
            if following == 0 {
                break;
            }
        }
        clear(memory, primary, 0..=SLOTS - 1);
        memory.set_word(primary + LINK, ghosts);
        let bit = TAG_SHIFT + (self.mask + 1).trailing_zeros() - self.first_bits;
        self.buckets += 1;
        self.published.set_buckets(self.buckets);
        if self.buckets == (self.mask + 1) * 2 {
            self.mask = self.mask << 1 | 1;
        }
        // Fingerprints do not say which bucket they belong to now.
        let at = self.address(new) + LINK;
        memory.set_word(at, ghosts);
        for slot in slots.drain(..).filter(|slot| *slot != 0) {
            let bucket = if slot >> bit & 1 == 0 { old } else { new };
            self.place(memory, bucket, slot);
        }
        self.published.end(old);
        self.splitting = slots;
    }

    /// Removes a slot that was found by this hash.
    pub(crate) fn remove(&mut self, memory: &mut impl Words, hash: u64, slot: Slot) {
        let mut before = None;
        let mut last = self.address(self.bucket_of(hash));
        loop {
            match next(memory.word(last + LINK)) {
                0 => break,
                next => (before, last) = (Some(last), next),
            }
        }
        let slots = (0..SLOTS)
            .take_while(|slot| memory.word(last + slot * WORD) != 0)
            .count();
        let moved = last + (slots - 1) * WORD;
        let other = memory.word(moved);
        self.published.begin(hash);
        memory.set_word(slot.0, other);
        memory.set_word(moved, 0);
        if let Some(before) = before.filter(|_| slots == 1) {
            set_next(memory, before, 0);
            self.free_overflow(memory, last);
        }
        self.published.end(hash);
        self.items -= 1;
    }

    /// The slots of the items in a bucket, and their locations.
    pub(crate) fn slots<'a, M: Words>(
        &self,
        memory: &'a M,
        bucket: u64,
    ) -> impl Iterator<Item = (Slot, usize)> + use<'a, M, W> {
        let mut address = self.address(bucket);
        let mut slot = 0;
        std::iter::from_fn(move || {
            if slot == SLOTS {
                address = next(memory.word(address + LINK));
                slot = 0;
                if address == 0 {
                    return None;
                }
            }
            let at = address + slot * WORD;
            let found = memory.word(at);
            slot += 1;
            (found != 0).then(|| (Slot(at), location(found)))
        })
    }
}
