//! One cache line of eight atomic words.

use super::lanes::{Baseline, Lanes};
use std::array;
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

impl<W: Word> Line<W> {
    /// Its words, as the writer sees them.
    pub fn words(&self) -> [u64; WORDS_PER_LINE] {
        W::read::<Baseline>(self).words()
    }
}
