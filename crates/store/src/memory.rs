//! The memory of a partition: 64-bit words that its owner alone writes, and that other threads may read meanwhile.
//!
//! Each write is one of whole words, atomic and without order, so that a reader of words sees each as it was before or is now.
//! The owner reads plain bytes: nobody else writes. The only file of this crate with unsafe code.

use corelane_table::{MemoryError, Placement, Region};
#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// Words at addresses in bytes, which are multiples of [`WORD`]. The lowest bits of a word are in its first byte.
pub(crate) trait Words {
    /// The words from an address on.
    fn words<const COUNT: usize>(&self, at: usize) -> [u64; COUNT];

    /// Replaces a word.
    fn set_word(&mut self, at: usize, word: u64);

    /// The word at an address.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.words::<1>(at)[0]
    }
}

/// A word that its owner stores and others load. That of the model checker is one, too.
pub(crate) trait Word: Sized {
    fn new(word: u64) -> Self;

    fn load(&self, order: Ordering) -> u64;

    fn store(&self, word: u64, order: Ordering);

    fn fence(order: Ordering);

    /// Loads the bytes of as many words, each word at once and without order.
    #[inline(always)]
    fn load_all(words: &[Self], chunks: &mut [[u8; WORD]]) {
        for (word, chunk) in words.iter().zip(chunks) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
    }
}

impl Word for AtomicU64 {
    fn new(word: u64) -> Self {
        AtomicU64::new(word)
    }

    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, word: u64, order: Ordering) {
        self.store(word, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn load_all(words: &[Self], chunks: &mut [[u8; WORD]]) {
        load_lines(words, chunks);
    }
}

/// Memory for a partition.
pub struct Memory {
    words: Arc<Region<AtomicU64>>,
}

impl Memory {
    /// Zeroed memory, which takes pages as it is touched.
    ///
    /// # Errors
    /// If it cannot be mapped, or not be placed.
    pub fn zeroed(bytes: usize, placement: Placement) -> Result<Memory, MemoryError> {
        let words = Region::zeroed(bytes / WORD, placement)?;
        Ok(Memory {
            words: Arc::new(words),
        })
    }

    /// All bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        let words: &[AtomicU64] = &self.words;
        // SAFETY: the words are initialised, live as long as this borrow, and any byte of them is a byte. Only functions that borrow
        // this exclusively store to them: the region was passed to no one, and readers have no other access than loads.
        unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
    }

    /// The words, to be loaded only.
    pub(crate) fn share(&self) -> Arc<Region<AtomicU64>> {
        Arc::clone(&self.words)
    }

    /// Copies bytes to an address.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.store(at, bytes);
    }

    /// Copies bytes from an address to another.
    ///
    /// # Panics
    /// If the two ranges have a word in common.
    pub(crate) fn copy(&mut self, from: usize, to: usize, length: usize) {
        let (start, end) = (from / WORD, (from + length).div_ceil(WORD));
        assert!(
            end <= to / WORD || (to + length).div_ceil(WORD) <= start,
            "the ranges have a word in common"
        );
        self.store(to, &self.bytes()[from..][..length]);
    }

    /// Copies bytes to an address. They are not in the words that are written, and this is borrowed exclusively.
    #[inline(always)]
    fn store(&self, at: usize, bytes: &[u8]) {
        let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            return self.store_few(at, bytes);
        };
        let before = at % WORD;
        if before > 0 {
            let shift = before * 8;
            self.merge(at / WORD, u64::from_le_bytes(*first) << shift, u64::MAX << shift);
        }
        let front = (WORD - before) % WORD;
        let (chunks, back) = bytes[front..].as_chunks();
        let place = (at + front) / WORD;
        store_words(&self.words[place..][..chunks.len()], chunks);
        if !back.is_empty() {
            let shift = (WORD - back.len()) * 8;
            let place = place + chunks.len();
            self.merge(place, u64::from_le_bytes(*last) >> shift, u64::MAX >> shift);
        }
    }

    /// Copies fewer bytes than a word has.
    fn store_few(&self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let shift = at % WORD * 8;
            self.merge(at / WORD, u64::from(*byte) << shift, 0xff << shift);
        }
    }

    /// Replaces some bits of a word.
    #[inline(always)]
    fn merge(&self, place: usize, bits: u64, mask: u64) {
        let word = &self.words[place];
        let others = u64::from_le(word.load(Ordering::Relaxed)) & !mask;
        word.store((others | bits & mask).to_le(), Ordering::Relaxed);
    }

    /// Zeroes the words of a range of addresses.
    pub(crate) fn zero(&mut self, at: usize, bytes: usize) {
        for word in &self.words[at / WORD..][..bytes / WORD] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

impl Words for Memory {
    #[inline(always)]
    fn words<const COUNT: usize>(&self, at: usize) -> [u64; COUNT] {
        let (words, _) = self.bytes()[at..at + COUNT * WORD].as_chunks::<WORD>();
        std::array::from_fn(|word| u64::from_le_bytes(words[word]))
    }

    #[inline(always)]
    fn set_word(&mut self, at: usize, word: u64) {
        self.words[at / WORD].store(word.to_le(), Ordering::Relaxed);
    }
}

/// Stores as many chunks in as many words.
#[inline(always)]
fn store_words(words: &[AtomicU64], chunks: &[[u8; WORD]]) {
    #[cfg(target_arch = "x86_64")]
    let (words, chunks) = store_lines(words, chunks);
    for (word, chunk) in words.iter().zip(chunks) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
}

/// Words that are copied together.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 8;

/// Whether both words of each vector from this address on are written and read intact.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn is_aligned(words: &[AtomicU64]) -> bool {
    words.as_ptr().addr().is_multiple_of(2 * WORD)
}

/// Stores chunks in groups of eight, in vectors: a loop of atomic stores copies 4 KiB half as fast. Returns what is left.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn store_lines<'a>(
    mut words: &'a [AtomicU64],
    mut chunks: &'a [[u8; WORD]],
) -> (&'a [AtomicU64], &'a [[u8; WORD]]) {
    if chunks.len() > LINE && !is_aligned(words) {
        words[0].store(u64::from_ne_bytes(chunks[0]), Ordering::Relaxed);
        (words, chunks) = (&words[1..], &chunks[1..]);
    }
    if !is_aligned(words) {
        return (words, chunks);
    }
    let (lines, words) = words.as_chunks::<LINE>();
    let (groups, chunks) = chunks.as_chunks::<LINE>();
    for (line, group) in lines.iter().zip(groups) {
        // SAFETY: both references are valid for 64 bytes, the line is aligned to 16, and atomics may be stored to through a shared
        // reference.
        unsafe { copy_line(group.as_ptr().cast(), line.as_ptr().cast_mut().cast()) };
    }
    (words, chunks)
}

/// Loads the bytes of as many words, in groups of eight.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load_lines(words: &[AtomicU64], chunks: &mut [[u8; WORD]]) {
    let front = usize::from(!is_aligned(words)).min(words.len());
    let (first, words) = words.split_at(front);
    let (first_chunk, chunks) = chunks.split_at_mut(front);
    let (lines, rest) = words.as_chunks::<LINE>();
    let (groups, last_chunks) = chunks.as_chunks_mut::<LINE>();
    for (line, group) in lines.iter().zip(groups) {
        // SAFETY: both references are valid for 64 bytes, that to the group is exclusive, and the line is aligned to 16.
        unsafe { copy_line(line.as_ptr().cast(), group.as_mut_ptr().cast()) };
    }
    let words = first.iter().chain(rest);
    for (word, chunk) in words.zip(first_chunk.iter_mut().chain(last_chunks)) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies 64 bytes. It does what eight atomic loads and eight atomic stores without order would, as far as an address is aligned to 16:
/// an access of 16 bytes to it has both words intact (AMD64 manual, volume 2, 7.3.2; Intel's, volume 3, 9.1.1). It stays between the
/// accesses around it: the compiler takes it for one to any memory.
///
/// # Safety
/// `from` is valid for reads of 64 bytes, and `to` for writes. If others access one of them meanwhile, that is aligned to 16, and they do
/// so atomically.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_line(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's. It is not `pure` or `nomem`.
    unsafe {
        asm!(
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            "movdqu [{to}], {a}",
            "movdqu [{to} + 16], {b}",
            "movdqu [{to} + 32], {c}",
            "movdqu [{to} + 48], {d}",
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            from = in(reg) from,
            to = in(reg) to,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::zeroed(1_024, Placement::default()).unwrap();
        for at in 0..1_024 {
            memory.write(at, &[at as u8 ^ 0x5a]);
        }
        memory
    }

    #[test]
    fn bytes_are_written_at_any_address_and_no_others_change() {
        let bytes: Vec<u8> = (1..=40).collect();
        for at in 16..32 {
            for length in 0..bytes.len() {
                let mut memory = memory();
                let mut expected = memory.bytes().to_vec();
                expected[at..at + length].copy_from_slice(&bytes[..length]);
                memory.write(at, &bytes[..length]);
                assert_eq!(memory.bytes(), expected, "{length} bytes at {at}");
            }
        }
    }

    #[test]
    fn bytes_are_copied_between_any_addresses_and_no_others_change() {
        for (from, to) in (0..10).flat_map(|from| (600..610).map(move |to| (from, to))) {
            for length in (0..20).chain(250..270).chain([400]) {
                let mut memory = memory();
                let mut expected = memory.bytes().to_vec();
                expected.copy_within(from..from + length, to);
                memory.copy(from, to, length);
                assert_eq!(memory.bytes(), expected, "{length} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn words_are_loaded_from_any_place_and_no_others() {
        let memory = memory();
        let words: &[AtomicU64] = &memory.words;
        for (start, length) in (0..20).flat_map(|start| (0..70).map(move |length| (start, length))) {
            let mut chunks = vec![[0x77; WORD]; length + 1];
            AtomicU64::load_all(&words[start..][..length], &mut chunks[..length]);
            let expected = &memory.bytes()[start * WORD..][..length * WORD];
            assert_eq!(
                chunks[..length].as_flattened(),
                expected,
                "{length} words at {start}"
            );
            assert_eq!(chunks[length], [0x77; WORD]);
        }
    }

    #[test]
    fn the_lowest_bits_of_a_word_are_in_its_first_byte() {
        let mut memory = memory();
        memory.set_word(16, 0x0807_0605_0403_0201);
        assert_eq!(memory.bytes()[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(memory.words::<2>(16)[0], 0x0807_0605_0403_0201);
        memory.zero(16, 8);
        assert_eq!(memory.word(16), 0);
    }
}
