//! Reads of whole cache lines, in vectors as wide as the CPU supports.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;

use super::line::{Kernel, Lanes, Line, WORDS_PER_LINE, Word};

/// Does the work with the widest vectors of this CPU.
#[inline]
pub(crate) fn with_widest_vectors(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512::is_there() {
            // SAFETY: the CPU has what the function is compiled for.
            unsafe { avx512::run(kernel) };
        } else if avx2::is_there() {
            // SAFETY: as above.
            unsafe { avx2::run(kernel) };
        } else {
            kernel.run::<Baseline>();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    kernel.run::<Baseline>();
}

/// The name of the vectors that lookups in batches use on this CPU: `avx512`, `avx2`, `sse2`, or `words` if none.
#[must_use]
pub fn vectors() -> &'static str {
    struct Name<'a>(&'a mut &'static str);
    impl Kernel for Name<'_> {
        #[inline(always)]
        fn run<V: Lanes>(self) {
            *self.0 = V::NAME;
        }
    }
    let mut name = "";
    with_widest_vectors(Name(&mut name));
    name
}

/// The lanes that every CPU of this architecture has.
#[cfg(target_arch = "x86_64")]
pub(crate) type Baseline = sse2::Sse2;
/// The lanes that every CPU of this architecture has.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Baseline = portable::Portable;

impl<W: Word> Line<W> {
    /// Its words, as the writer sees them.
    pub fn words(&self) -> [u64; WORDS_PER_LINE] {
        W::read::<Baseline>(self).words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    /// Compares every width with the definitions in the trait.
    struct Check {
        words: [u64; WORDS_PER_LINE],
        masks: [u64; 2],
        wanted: [u64; 2],
    }

    impl Kernel for Check {
        #[inline(always)]
        fn run<V: Lanes>(self) {
            let line = Line(self.words.map(AtomicU64::new));
            for lanes in [V::of_words(self.words), V::of_line(&line)] {
                assert_eq!(lanes.words(), self.words);
                let portable = portable::Portable::of_words(self.words);
                let (mask, wanted) = (self.masks[0] as u32, self.wanted[0] as u32);
                assert_eq!(
                    lanes.halves_equal(mask, wanted),
                    portable.halves_equal(mask, wanted)
                );
                assert_eq!(lanes.any_half_zero(), portable.any_half_zero());
                assert_eq!(
                    lanes.words_equal(self.masks, self.wanted),
                    portable.words_equal(self.masks, self.wanted)
                );
                for bit in 0..2 * WORDS_PER_LINE {
                    let bits = 0x8001 << bit & 0xffff;
                    assert_eq!(lanes.half_at(bits), portable.half_at(bits));
                    assert_eq!(
                        lanes.word_at(bits & 0xff | 0x80),
                        portable.word_at(bits & 0xff | 0x80)
                    );
                }
            }
        }
    }

    /// Few different words, so that equal ones are common.
    fn word() -> impl Strategy<Value = u64> {
        let half = || prop::sample::select(vec![0_u64, 1, 2, 0x8000_0000, 0xffff_ffff]);
        (half(), half()).prop_map(|(low, high)| high << 32 | low)
    }

    proptest! {
        #[test]
        fn every_width_sees_the_same(
            words in prop::array::uniform8(word()), masks in prop::array::uniform2(word()),
            wanted in prop::array::uniform2(word()),
        ) {
            let check = || Check { words, masks, wanted };
            check().run::<Baseline>();
            with_widest_vectors(check());
            #[cfg(target_arch = "x86_64")]
            if avx2::is_there() {
                // SAFETY: the CPU supports the features for which the function is compiled.
                unsafe { avx2::run(check()) };
            }
        }
    }

    #[test]
    fn words_and_halves_are_numbered_from_the_lowest_bits_of_the_first_word() {
        let words = std::array::from_fn(|word| (2 * word as u64 + 1) << 32 | (2 * word as u64));
        let lanes = Baseline::of_words(words);
        for half in 0..16 {
            assert_eq!(lanes.halves_equal(0xff, half), 1 << half);
        }
        for (number, word) in words.iter().enumerate() {
            assert_eq!(lanes.words_equal([u64::MAX; 2], [*word; 2]), 1 << number);
        }
    }
}
