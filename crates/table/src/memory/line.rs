//! One cache line of eight atomic words, and what a line is as it was read.

use std::array;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a cache line: 64 bytes, the line of every x86-64 and of nearly every 64-bit Arm CPU.
pub const WORDS_PER_LINE: usize = 8;

/// A word that one writer stores and any reader loads. The model checker's word is one too.
pub trait Word: Sized {
    /// Loads with acquire ordering: what the writer did before it stored this is visible.
    fn get(&self) -> u64;
    /// Stores with release ordering.
    fn set(&self, value: u64);
    /// Loads the words of a line, each atomically and with acquire ordering, the first four before the last four.
    #[inline(always)]
    fn read<V: Lanes>(line: &Line<Self>) -> V {
        V::of_words(array::from_fn(|word| line.0[word].get()))
    }
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn read<V: Lanes>(line: &Line) -> V {
        V::of_line(line)
    }
}

/// A cache line.
#[repr(C, align(64))]
pub struct Line<W = AtomicU64>(pub [W; WORDS_PER_LINE]);

/// A line as it was read: eight words or sixteen half words, the low half of a word before its high half.
///
/// # Safety
/// It has the bytes of the words in their order, and any bits are a valid value.
pub unsafe trait Lanes: Copy {
    /// The name of these vectors.
    const NAME: &'static str;

    /// These words.
    #[inline(always)]
    fn of_words(words: [u64; WORDS_PER_LINE]) -> Self {
        const { assert!(size_of::<Self>() == size_of::<[u64; WORDS_PER_LINE]>()) };
        // SAFETY: the sizes are the same, and any bits are valid.
        unsafe { mem::transmute_copy(&words) }
    }

    /// Loads the words of a line, as [`Word::read`] demands.
    fn of_line(line: &Line) -> Self;

    /// All words.
    #[inline(always)]
    fn words(self) -> [u64; WORDS_PER_LINE] {
        const { assert!(size_of::<Self>() == size_of::<[u64; WORDS_PER_LINE]>()) };
        // SAFETY: the sizes are the same, and any bits are words.
        unsafe { mem::transmute_copy(&self) }
    }

    /// One bit per half word, bit 0 for the first: whether its bits under `mask` equal `wanted`.
    fn halves_equal(self, mask: u32, wanted: u32) -> u32;

    /// Whether any half word is zero.
    #[inline(always)]
    fn any_half_zero(self) -> bool {
        self.halves_equal(u32::MAX, 0) != 0
    }

    /// One bit per word: whether its bits under the mask equal the wanted ones. The first mask and wanted word are for the
    /// first four words, the second for the last four.
    fn words_equal(self, masks: [u64; 2], wanted: [u64; 2]) -> u32;

    /// The half word at the lowest set bit; any if none is set.
    #[inline(always)]
    fn half_at(self, bits: u32) -> u32 {
        let half = bits.trailing_zeros() as usize % (2 * WORDS_PER_LINE);
        (self.words()[half / 2] >> (half % 2 * 32)) as u32
    }

    /// The word at the lowest set bit; any if none is set.
    #[inline(always)]
    fn word_at(self, bits: u32) -> u64 {
        self.words()[bits.trailing_zeros() as usize % WORDS_PER_LINE]
    }
}

/// Work that may be compiled for several widths of vectors.
pub(crate) trait Kernel {
    /// Does the work. It must be `#[inline(always)]`, like everything called in its loops, so that it is compiled for each
    /// width.
    fn run<V: Lanes>(self);
}
