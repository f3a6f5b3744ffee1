//! An item as it lies in memory, and what a reader and a writer see of it.
//!
//! | bytes | content, little endian |
//! |---|---|
//! | 0..8 | cas |
//! | 8..12 | expiry |
//! | 12..16 | last access |
//! | 16..20 | client flags |
//! | 20..24 | bytes of the value |
//! | 24 | bytes of the key |
//! | 25 | marks |
//! | 26.. | key, value, padding up to a multiple of 8 |
//!
//! A value of several segments continues at the start of the next segment of its chain.

use crate::bucket::ALIGNMENT;
use crate::memory::{Memory, WORD, Words};
use crate::published::Published;
use crate::segments::Segments;
use std::sync::atomic::AtomicU64;

/// Bytes before the key.
pub(crate) const HEADER: usize = 26;
/// Words with the header. The last has the first bytes of the key, too.
pub(crate) const HEADER_WORDS: usize = HEADER.div_ceil(WORD);
/// The address of the last of them in an item, and its bits of the header.
const LAST: usize = (HEADER_WORDS - 1) * WORD;
const LAST_BITS: u64 = (1 << ((HEADER - LAST) * 8)) - 1;
const MARKS_SHIFT: u32 = 8;
/// Cache lines of an item that are loaded ahead, and their bytes.
pub(crate) const PREFETCHED_LINES: usize = 3;
pub(crate) const LINE: usize = 64;

/// Bits of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// None.
    pub const NONE: Marks = Marks(0);
    /// Read since it was stored.
    pub const FETCHED: Marks = Marks(1);
    /// Replaced, removed or cancelled: its memory is dead.
    pub(crate) const DEAD: Marks = Marks(64);
    /// Reserved and not committed.
    pub(crate) const PENDING: Marks = Marks(128);
    const PUBLIC: u8 = 63;

    /// The marks of these bits, of which the lower six count.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Marks {
        Marks(bits & Marks::PUBLIC)
    }

    /// The bits: at most 63. The store uses that of [`FETCHED`](Marks::FETCHED) only; the meaning of the others is up to its user.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has all of these.
    #[inline]
    #[must_use]
    pub const fn has(self, marks: Marks) -> bool {
        self.0 & marks.0 == marks.0
    }
}

/// What an item has beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The unique number of this version.
    pub cas: u64,
    /// The second from which on it is no longer returned; 0 for never.
    pub expiry: u32,
    /// The second of the last access, by the user's rules.
    pub accessed: u32,
    /// The client's flags.
    pub flags: u32,
    /// Bits.
    pub marks: Marks,
}

/// The header of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) attributes: Attributes,
    /// Bytes of the value.
    pub(crate) value: u32,
    /// Bytes of the key.
    pub(crate) key: u8,
}

impl Head {
    /// The header that begins with these words.
    #[inline(always)]
    pub(crate) fn of_words(words: [u64; HEADER_WORDS]) -> Head {
        let [cas, times, flags_and_length, last] = words;
        Head {
            attributes: Attributes {
                cas,
                expiry: times as u32,
                accessed: (times >> 32) as u32,
                flags: flags_and_length as u32,
                marks: Marks((last >> MARKS_SHIFT) as u8),
            },
            value: (flags_and_length >> 32) as u32,
            key: last as u8,
        }
    }

    #[inline(always)]
    pub(crate) fn read(memory: &impl Words, location: usize) -> Head {
        Head::of_words(memory.words(location))
    }

    #[inline(always)]
    pub(crate) fn write(&self, memory: &mut impl Words, location: usize) {
        let attributes = &self.attributes;
        let words = [
            attributes.cas,
            u64::from(attributes.expiry) | u64::from(attributes.accessed) << 32,
            u64::from(attributes.flags) | u64::from(self.value) << 32,
        ];
        for (place, word) in words.into_iter().enumerate() {
            memory.set_word(location + place * WORD, word);
        }
        let key = memory.word(location + LAST) & !LAST_BITS;
        let marks = u64::from(attributes.marks.0) << MARKS_SHIFT;
        memory.set_word(location + LAST, key | marks | u64::from(self.key));
    }

    /// Header, key and value.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        HEADER + usize::from(self.key) + self.value as usize
    }

    /// Bytes of memory.
    #[inline(always)]
    pub(crate) fn space(&self) -> usize {
        self.bytes().next_multiple_of(ALIGNMENT)
    }

    /// Whether it is in the index.
    #[inline(always)]
    pub(crate) fn is_indexed(&self) -> bool {
        self.attributes.marks.0 & !Marks::PUBLIC == 0
    }
}

/// The key of the item at a location.
#[inline(always)]
pub(crate) fn key_at(memory: &Memory, location: usize) -> &[u8] {
    let length = usize::from(memory.bytes()[location + LAST]);
    &memory.bytes()[location + HEADER..][..length]
}

/// Adds marks to an item.
pub(crate) fn mark(memory: &mut impl Words, location: usize, marks: Marks) {
    let last = memory.word(location + LAST);
    memory.set_word(location + LAST, last | u64::from(marks.0) << MARKS_SHIFT);
}

/// The value of an item, in one or more parts.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    first: &'a [u8],
    length: usize,
    chain: Chain<'a>,
}

/// The segments of a value after the first.
#[derive(Clone, Copy, Debug)]
struct Chain<'a> {
    memory: &'a [u8],
    segments: &'a Segments,
    head: u32,
}

impl<'a> Value<'a> {
    /// The bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The value if it is in one part, as each value of up to about half a segment is.
    #[inline(always)]
    #[must_use]
    pub fn whole(&self) -> Option<&'a [u8]> {
        (self.first.len() == self.length).then_some(self.first)
    }

    /// Its first part: all of it, if the value has no more than about half a segment.
    #[inline(always)]
    #[must_use]
    pub fn first(&self) -> &'a [u8] {
        self.first
    }

    /// The parts in their order; there is one at least, and it is empty if the value is.
    pub fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        std::iter::once(self.first).chain(self.rest())
    }

    /// The parts after the first, in their order.
    #[inline]
    pub fn rest(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (chain, mut left) = (self.chain, self.length - self.first.len());
        let mut segment = chain.head;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            segment = chain.segments[segment].chain;
            let part = &chain.memory[chain.segments.start(segment)..][..left.min(chain.segments.bytes())];
            left -= part.len();
            Some(part)
        })
    }

    /// The bytes in a vector of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        self.parts().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}

/// An item as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its attributes.
    pub attributes: Attributes,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: Value<'a>,
}

impl<'a> Item<'a> {
    #[inline(always)]
    pub(crate) fn of(head: &Head, memory: &'a Memory, segments: &'a Segments, location: usize) -> Item<'a> {
        let memory = memory.bytes();
        let number = segments.of(location);
        let length = head.value as usize;
        let key = location + HEADER;
        let value = key + usize::from(head.key);
        let end = segments.end(number).min(value + length);
        Item {
            attributes: head.attributes,
            key: &memory[key..value],
            value: Value {
                first: &memory[value..end],
                length,
                chain: Chain {
                    memory,
                    segments,
                    head: number,
                },
            },
        }
    }
}

/// An item that may be changed in place.
pub struct ItemMut<'a> {
    pub(crate) head: Head,
    pub(crate) memory: &'a mut Memory,
    pub(crate) segments: &'a mut Segments,
    pub(crate) location: usize,
    pub(crate) published: &'a Published<AtomicU64>,
    pub(crate) hash: u64,
}

impl<'a> ItemMut<'a> {
    /// The attributes.
    #[inline]
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.head.attributes
    }

    /// Length of the value in bytes.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.value as usize
    }

    /// The item.
    #[inline]
    #[must_use]
    pub fn item(&self) -> Item<'_> {
        Item::of(&self.head, self.memory, self.segments, self.location)
    }

    /// The item, no longer to be changed.
    #[inline]
    #[must_use]
    pub fn into_item(self) -> Item<'a> {
        Item::of(&self.head, self.memory, self.segments, self.location)
    }

    /// Replaces the attributes.
    #[inline]
    pub fn set_attributes(&mut self, attributes: Attributes) {
        self.published.begin(self.hash);
        self.write_attributes(attributes);
        self.published.end(self.hash);
    }

    #[inline]
    fn write_attributes(&mut self, attributes: Attributes) {
        let expiry = std::mem::replace(&mut self.head.attributes, attributes).expiry;
        self.head.write(self.memory, self.location);
        // What the segment knows is not in the cache, and most changes are of other attributes.
        if attributes.expiry != expiry {
            self.segments.expires(self.location, attributes.expiry);
        }
    }

    /// Replaces the front of the value by bytes that are at most as long, the rest by spaces, and the attributes; a value of several
    /// parts stays.
    ///
    /// # Panics
    /// If there are more bytes than the value has.
    pub fn overwrite(&mut self, value: &[u8], attributes: Attributes) {
        let start = self.location + HEADER + usize::from(self.head.key);
        let end = start + self.head.value as usize;
        self.published.begin(self.hash);
        if end <= self.segments.end(self.segments.of(self.location)) {
            let (spaces, mut at) = (end - start - value.len(), start + value.len());
            self.memory.write(start, value);
            for _ in 0..spaces {
                self.memory.write(at, b" ");
                at += 1;
            }
        }
        self.write_attributes(attributes);
        self.published.end(self.hash);
    }
}
