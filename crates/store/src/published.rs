//! What the owner of a partition publishes for those who read its memory meanwhile: where the index is, and versions.
//!
//! The low bits of a hash choose one of the stripes. All keys of a bucket are of one stripe, and those of the bucket that is split off
//! from it, too. The version of a stripe is odd while the owner changes where one of its keys is found, or what bytes an item has that
//! is found; and it is higher after each such change. Memory is used again only after all items in it have left the index. So what a
//! reader has found and copied was there at one moment if the version is even and the same before and after
//! (Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012).

use crate::bucket::BUCKET;
use crate::memory::Word;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bits of the hash that choose a stripe, at most: 4,096 counters are 32 KiB, which stay in the owner's cache.
const MOST_STRIPE_BITS: u32 = 12;
/// Readers find items in all seconds.
const ALWAYS: u64 = u64::MAX;

/// What is published.
pub(crate) struct Published<W> {
    versions: Box<[W]>,
    /// The segments with buckets, in the order of the buckets.
    directory: Box<[W]>,
    buckets: W,
    /// The second from which on readers find nothing.
    until: W,
    /// Bytes of a segment are 2^`shift`.
    pub(crate) shift: u32,
}

impl<W: Word> Published<W> {
    /// Of a region of so many segments of 2^`shift` bytes, without buckets.
    pub(crate) fn new(shift: u32, segments: usize) -> Self {
        let first_bits = shift - BUCKET.trailing_zeros();
        let words = |count| (0..count).map(|_| W::new(0)).collect();
        Self {
            versions: words(1 << first_bits.min(MOST_STRIPE_BITS)),
            directory: words(segments),
            buckets: W::new(0),
            until: W::new(ALWAYS),
            shift,
        }
    }

    #[inline(always)]
    fn version(&self, hash: u64) -> &W {
        &self.versions[hash as usize & (self.versions.len() - 1)]
    }

    /// The owner is about to change something in the stripe of a hash.
    #[inline(always)]
    pub(crate) fn begin(&self, hash: u64) {
        let version = self.version(hash);
        version.store(version.load(Relaxed).wrapping_add(1), Relaxed);
        // Who sees something that is stored after this sees the version, too.
        W::fence(Release);
    }

    /// It has changed it.
    #[inline(always)]
    pub(crate) fn end(&self, hash: u64) {
        let version = self.version(hash);
        version.store(version.load(Relaxed).wrapping_add(1), Release);
    }

    /// Adds a segment of buckets at its place.
    pub(crate) fn add(&self, place: usize, segment: u32) {
        self.directory[place].store(u64::from(segment), Relaxed);
    }

    /// There are so many buckets.
    pub(crate) fn set_buckets(&self, buckets: u64) {
        self.buckets.store(buckets, Relaxed);
    }

    /// Readers find nothing from this second on, or nothing in no second.
    pub(crate) fn close_from(&self, second: Option<u32>) {
        // Who sees this sees that flushed items have left the index before.
        self.until.store(second.map_or(ALWAYS, u64::from), Release);
    }

    /// The version of the stripe of a hash, if nothing of it is being changed.
    #[inline(always)]
    pub(crate) fn stable(&self, hash: u64) -> Option<u64> {
        let version = self.version(hash).load(Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Whether the stripe of a hash still has this version, after all that was read before.
    #[inline(always)]
    pub(crate) fn is_still(&self, hash: u64, version: u64) -> bool {
        W::fence(Acquire);
        self.version(hash).load(Relaxed) == version
    }

    /// The number of buckets, and the largest power of two that is at most as many, minus 1.
    #[inline(always)]
    pub(crate) fn buckets(&self) -> (u64, u64) {
        let buckets = self.buckets.load(Relaxed);
        (buckets, (1 << (buckets | 1).ilog2()) - 1)
    }

    /// The segment with a bucket.
    #[inline(always)]
    pub(crate) fn segment(&self, bucket: u64) -> Option<u32> {
        let place = bucket >> (self.shift - BUCKET.trailing_zeros());
        let segment = self.directory.get(place as usize)?.load(Relaxed);
        u32::try_from(segment).ok()
    }

    /// Whether readers find items in this second.
    #[inline(always)]
    pub(crate) fn is_open(&self, now: u32) -> bool {
        u64::from(now) < self.until.load(Relaxed)
    }
}
