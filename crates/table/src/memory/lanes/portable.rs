//! A line of plain words, for any CPU; the reference for the others.

use crate::memory::line::{Lanes, Line, WORDS_PER_LINE, Word};
use std::array;

/// Eight words.
#[derive(Clone, Copy)]
#[repr(transparent)]
#[allow(dead_code)]
pub struct Portable([u64; WORDS_PER_LINE]);

// SAFETY: it is integers.
unsafe impl Lanes for Portable {
    const NAME: &'static str = "words";

    #[inline(always)]
    fn of_line(line: &Line) -> Portable {
        Portable(array::from_fn(|word| line.0[word].get()))
    }

    #[inline(always)]
    fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        (0..2 * WORDS_PER_LINE).fold(0, |bits, half| {
            bits | u32::from((self.0[half / 2] >> (half % 2 * 32)) as u32 & mask == wanted) << half
        })
    }

    #[inline(always)]
    fn words_equal(self, masks: [u64; 2], wanted: [u64; 2]) -> u32 {
        (0..WORDS_PER_LINE).fold(0, |bits, word| {
            let of = word / (WORDS_PER_LINE / 2);
            bits | u32::from(self.0[word] & masks[of] == wanted[of]) << word
        })
    }
}
