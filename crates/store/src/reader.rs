//! How other threads read items of a partition while its owner changes them.
//!
//! In: the hash and the bytes of a key. Out: a copy of the item as it was at one moment, or why there is none: then its owner is to be
//! asked. All that is read may be changed meanwhile and used for something else, so every address is checked and every number of steps
//! bounded; the version of the key's stripe decides at the end whether it was all of one moment.

use crate::bucket::{self, ACCESSES, LONGEST_CHAIN, SLOTS, Words, location, next, tagged};
use crate::hash::Hash;
use crate::item::{Attributes, HEADER, HEADER_WORDS, Head, LINE, PREFETCHED_LINES};
use crate::memory::{WORD, Word};
use crate::published::Published;
use corelane_table::{Region, prefetch};
use std::array;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// How often a read is tried while the owner changes something in the stripe: two changes that follow on each other rarely meet it twice.
const TRIES: usize = 3;

/// Why an item is not read from outside.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotRead {
    /// The owner was changing this stripe of keys.
    #[error("the owner is changing it")]
    Changing,
    /// The key has no item, or it has expired or is flushed.
    #[error("it is not there")]
    Absent,
    /// Its owner would change it when it reads it.
    #[error("the owner would change it")]
    Unsettled,
    /// Its value is in several parts.
    #[error("it is in several parts")]
    Parts,
}

/// An item that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied<'a> {
    /// Its attributes.
    pub attributes: Attributes,
    /// Its value.
    pub value: &'a [u8],
}

/// Reads items of a partition on any thread.
#[derive(Clone)]
pub struct Reader {
    words: Arc<Region<AtomicU64>>,
    published: Arc<Published<AtomicU64>>,
}

impl Reader {
    pub(crate) fn new(words: Arc<Region<AtomicU64>>, published: Arc<Published<AtomicU64>>) -> Self {
        Self { words, published }
    }

    /// Copies the item of a key into `buffer`, unless its owner would change something when it [reads](crate::Partition::read) it:
    /// the number of its accesses, or, as `is_settled` says, its attributes. It never waits for the owner.
    ///
    /// # Errors
    /// [`NotRead`]; the owner can always be asked instead.
    pub fn read<'a>(
        &self,
        (hash, key): (Hash, &[u8]),
        now: u32,
        is_settled: impl Fn(&Attributes) -> bool,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Copied<'a>, NotRead> {
        let view = self.view();
        let mut found = Err(NotRead::Changing);
        for _ in 0..TRIES {
            found = view.attempt((hash.value(), key), now, &is_settled, buffer);
            if found != Err(NotRead::Changing) {
                break;
            }
        }
        let Found {
            attributes,
            start,
            end,
        } = found?;
        Ok(Copied {
            attributes,
            value: &buffer[start..end],
        })
    }

    /// Starts the load of the index line of a key.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        if let Some(address) = self.view().address(hash.value()) {
            self.prefetch_lines(address, 1);
        }
    }

    /// Starts the load of the first lines of the item of a key, whose index line is loaded.
    #[inline]
    pub fn prefetch_item(&self, hash: Hash) {
        if let Some(location) = self.view().candidate(hash.value()) {
            self.prefetch_lines(location, PREFETCHED_LINES);
        }
    }

    #[inline]
    fn prefetch_lines(&self, at: usize, lines: usize) {
        for line in 0..lines {
            if let Some(word) = self.words.get((at + line * LINE) / WORD) {
                prefetch(word);
            }
        }
    }

    fn view(&self) -> View<'_, AtomicU64> {
        View {
            words: &self.words,
            published: &self.published,
        }
    }
}

/// An item in the buffer: where its value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) attributes: Attributes,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What a reader sees.
pub(crate) struct View<'a, W> {
    pub(crate) words: &'a [W],
    pub(crate) published: &'a Published<W>,
}

impl<W: Word> View<'_, W> {
    /// Tries to read an item once.
    #[inline(always)]
    pub(crate) fn attempt(
        &self,
        (hash, key): (u64, &[u8]),
        now: u32,
        is_settled: &impl Fn(&Attributes) -> bool,
        buffer: &mut Vec<u8>,
    ) -> Result<Found, NotRead> {
        let version = self.published.stable(hash).ok_or(NotRead::Changing)?;
        let found = self.copy((hash, key), now, is_settled, buffer);
        // Read before the last look at the version: a flush that has ended has changed that.
        let is_open = self.published.is_open(now);
        match self.published.is_still(hash, version) {
            false => Err(NotRead::Changing),
            true if !is_open => Err(NotRead::Absent),
            true => found,
        }
    }

    fn copy(
        &self,
        (hash, key): (u64, &[u8]),
        now: u32,
        is_settled: &impl Fn(&Attributes) -> bool,
        buffer: &mut Vec<u8>,
    ) -> Result<Found, NotRead> {
        let (slot, at, head) = self.find(hash, key).ok_or(NotRead::Absent)?;
        let attributes = head.attributes;
        if attributes.expiry != 0 && attributes.expiry <= now {
            return Err(NotRead::Absent);
        }
        if slot & ACCESSES != ACCESSES || !is_settled(&attributes) {
            return Err(NotRead::Unsettled);
        }
        let value = at + HEADER + key.len();
        let (first, end) = (value / WORD, value + head.value as usize);
        if (end - 1) >> self.published.shift != at >> self.published.shift {
            return Err(NotRead::Parts);
        }
        let words = self.words.get(first..end.div_ceil(WORD)).ok_or(NotRead::Parts)?;
        let bytes = words.len() * WORD;
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        W::load_all(words, buffer[..bytes].as_chunks_mut().0);
        Ok(Found {
            attributes,
            start: value % WORD,
            end: end - first * WORD,
        })
    }

    /// The location of the first item in the bucket of a hash that may have its key.
    #[inline(always)]
    fn candidate(&self, hash: u64) -> Option<usize> {
        let bucket: Words = self.load(self.address(hash)?)?;
        let tagged = tagged(&bucket, self.tag(hash));
        (tagged != 0).then(|| location(bucket[tagged.trailing_zeros() as usize]))
    }

    #[inline(always)]
    fn tag(&self, hash: u64) -> u64 {
        bucket::tag(hash, self.published.shift - bucket::BUCKET.trailing_zeros())
    }

    /// The slot of a key, and the location and the header of its item.
    #[inline(always)]
    fn find(&self, hash: u64, key: &[u8]) -> Option<(u64, usize, Head)> {
        let mut address = self.address(hash)?;
        let tag = self.tag(hash);
        for _ in 0..LONGEST_CHAIN {
            let bucket: Words = self.load(address)?;
            let mut tagged = tagged(&bucket, tag);
            while tagged != 0 {
                let slot = bucket[tagged.trailing_zeros() as usize];
                if slot != 0
                    && let Some(head) = self.item(location(slot), key)
                {
                    return Some((slot, location(slot), head));
                }
                tagged &= tagged - 1;
            }
            address = next(bucket[SLOTS]);
            if address == 0 {
                return None;
            }
        }
        None
    }

    /// The address of the bucket of a hash.
    #[inline(always)]
    fn address(&self, hash: u64) -> Option<usize> {
        let (buckets, mask) = self.published.buckets();
        let bucket = bucket::bucket_of(hash, buckets, mask);
        let segment = self.published.segment(bucket)?;
        Some(bucket::address(bucket, segment, self.published.shift))
    }

    /// The words from an address on, if they are there.
    #[inline(always)]
    fn load<const COUNT: usize>(&self, at: usize) -> Option<[u64; COUNT]> {
        let words: &[W; COUNT] = self.words.get(at / WORD..)?.first_chunk()?;
        Some(array::from_fn(|word| u64::from_le(words[word].load(Relaxed))))
    }

    /// The header of the item at a location, if it has this key.
    #[inline(always)]
    fn item(&self, at: usize, key: &[u8]) -> Option<Head> {
        let words: [u64; HEADER_WORDS] = self.load(at)?;
        let head = Head::of_words(words);
        (usize::from(head.key) == key.len() && self.has_key(at, words[HEADER_WORDS - 1], key)).then_some(head)
    }

    /// Whether an item has this key, of as many bytes. The last word of the header has the first bytes of it.
    #[inline(always)]
    fn has_key(&self, at: usize, last: u64, key: &[u8]) -> bool {
        const SHIFT: usize = HEADER % WORD * 8;
        let place = at / WORD + HEADER_WORDS;
        let mut before = last >> SHIFT;
        let mut chunks = key.chunks(WORD).enumerate();
        chunks.all(|(number, chunk)| {
            // A short last chunk may be in the words before.
            let needs = chunk.len() * 8 + SHIFT > 64;
            let word = match self.words.get(place + number).filter(|_| needs) {
                Some(word) => u64::from_le(word.load(Relaxed)),
                None if needs => return false,
                None => 0,
            };
            let found = before | word << (64 - SHIFT);
            before = word >> SHIFT;
            let mut bytes = [0; WORD];
            bytes[..chunk.len()].copy_from_slice(chunk);
            (found ^ u64::from_le_bytes(bytes)) << (64 - chunk.len() * 8) == 0
        })
    }
}
