//! A bucket of the index, as it lies in memory.
//!
//! It is one cache line: seven slots, and a word with the link to an overflow bucket and the fingerprints of three ghosts:
//! keys whose items were evicted from the small queue. A slot has, from the low bits on, the location
//! in units of 8 bytes (36 bits, so 512 GiB), the number of accesses (2 bits), and a tag: 26 bits of the hash from the first on
//! that does not choose among the buckets of the first segment.

use crate::memory::WORD;

/// Items start at multiples of this: locations are in such units.
pub(crate) const ALIGNMENT: usize = 8;
/// Bytes of a bucket.
pub(crate) const BUCKET: usize = 64;
pub(crate) const SLOTS: usize = 7;
/// The word with the link and the ghosts.
pub(crate) const LINK: usize = SLOTS * WORD;
/// The address of the next bucket of the chain, in units of a bucket; 0 for none: only the first bucket is there, which is no overflow
/// bucket.
pub(crate) const NEXT: u64 = (1 << GHOSTS_SHIFT) - 1;
pub(crate) const GHOSTS_SHIFT: u32 = 34;
/// Of a ghost there is a fingerprint: one in 341 keys that were never here passes for one.
pub(crate) const GHOST_BITS: u32 = 10;
pub(crate) const GHOSTS: u32 = (64 - GHOSTS_SHIFT) / GHOST_BITS;
/// The bits of the hash that are the fingerprint: apart from those of tags and from the highest, which choose the owner.
pub(crate) const FINGERPRINT_SHIFT: u32 = 40;
pub(crate) const LOCATION_BITS: u32 = 36;
pub(crate) const LOCATION: u64 = (1 << LOCATION_BITS) - 1;
pub(crate) const ACCESSES_SHIFT: u32 = LOCATION_BITS;
pub(crate) const MOST_ACCESSES: u64 = 3;
pub(crate) const ACCESSES: u64 = MOST_ACCESSES << ACCESSES_SHIFT;
pub(crate) const TAG_SHIFT: u32 = LOCATION_BITS + 2;
pub(crate) const TAG_BITS: u32 = 64 - TAG_SHIFT;
/// Bytes of memory that locations can name.
pub(crate) const LARGEST_REGION: u64 = (ALIGNMENT as u64) << LOCATION_BITS;
/// Buckets of a chain. Chains have two at most unless the keys were chosen for it: then the time to find one is bounded by this.
pub(crate) const LONGEST_CHAIN: usize = 16;
/// The words of a bucket.
pub(crate) type Words = [u64; SLOTS + 1];

#[inline(always)]
pub(crate) fn location(slot: u64) -> usize {
    (slot & LOCATION) as usize * ALIGNMENT
}

/// The address in a word of links.
#[inline(always)]
pub(crate) fn next(link: u64) -> usize {
    (link & NEXT) as usize * BUCKET
}

/// Not 0, which is no ghost.
pub(crate) fn fingerprint(hash: u64) -> u64 {
    (hash >> FINGERPRINT_SHIFT & ((1 << GHOST_BITS) - 1)).max(1)
}

/// One bit per slot: whether it has this tag. Without branches: which slot it is cannot be predicted.
#[inline(always)]
pub(crate) fn tagged(bucket: &Words, tag: u64) -> u32 {
    (0..SLOTS)
        .map(|slot| u32::from((bucket[slot] ^ tag) < 1 << TAG_SHIFT) << slot)
        .sum()
}

/// The number of the bucket of a hash, of so many; `mask` is the largest power of two that is at most as many, minus 1.
#[inline(always)]
pub(crate) fn bucket_of(hash: u64, buckets: u64, mask: u64) -> u64 {
    let wide = hash & (mask << 1 | 1);
    if wide < buckets { wide } else { hash & mask }
}

/// The tag of a hash, in a slot.
#[inline(always)]
pub(crate) fn tag(hash: u64, first_bits: u32) -> u64 {
    (hash >> first_bits) << TAG_SHIFT
}

/// The address of a bucket, of those in `segment` of 2^`shift` bytes.
#[inline(always)]
pub(crate) fn address(bucket: u64, segment: u32, shift: u32) -> usize {
    let buckets = 1 << (shift - BUCKET.trailing_zeros());
    ((segment as usize) << shift) + (bucket & (buckets - 1)) as usize * BUCKET
}
