//! One cache line of eight atomic words, and what a reader takes from it at once.

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
    /// Loads the words of a line, each atomically, in rising order, each with acquire ordering.
    #[inline(always)]
    fn snapshot(words: &[Self; WORDS_PER_LINE]) -> Snapshot {
        Snapshot::new(array::from_fn(|word| words[word].get()))
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

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn snapshot(words: &[AtomicU64; WORDS_PER_LINE]) -> Snapshot {
        use std::arch::asm;
        let (a, b, c, d);
        // SAFETY: the reference is valid for 64 bytes and `Line` aligns it to them. Each aligned 16-byte load reads both
        // of its words atomically or one after the other (AMD64 manual, volume 2, 7.3.2; Intel's, volume 3, 9.1.1), and
        // x86 orders loads as acquire loads, so the block does what eight of them would. It is not `readonly`, so that
        // the compiler moves no other load across it.
        unsafe {
            asm!(
                "movdqa {0}, [{line}]",
                "movdqa {1}, [{line} + 16]",
                "movdqa {2}, [{line} + 32]",
                "movdqa {3}, [{line} + 48]",
                out(xmm_reg) a,
                out(xmm_reg) b,
                out(xmm_reg) c,
                out(xmm_reg) d,
                line = in(reg) words.as_ptr(),
                options(nostack, preserves_flags),
            );
        }
        Snapshot([a, b, c, d])
    }
}

/// A cache line.
#[repr(C, align(64))]
pub struct Line<W = AtomicU64>(pub(crate) [W; WORDS_PER_LINE]);

impl<W: Word> Line<W> {
    /// What a reader sees of the line.
    #[inline(always)]
    pub fn snapshot(&self) -> Snapshot {
        W::snapshot(&self.0)
    }
}

#[cfg(target_arch = "x86_64")]
type Parts = [std::arch::x86_64::__m128i; 4];
#[cfg(not(target_arch = "x86_64"))]
type Parts = [u64; WORDS_PER_LINE];

/// A line as it was read: eight words or sixteen half words, the low half of a word before its high half.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Snapshot(Parts);

#[cfg(target_arch = "x86_64")]
impl Snapshot {
    /// The snapshot of these words.
    pub fn new(words: [u64; WORDS_PER_LINE]) -> Snapshot {
        // SAFETY: the sizes are the same, any bits are a vector, and x86 is little-endian.
        unsafe { std::mem::transmute(words) }
    }

    /// All words.
    #[inline(always)]
    pub fn words(self) -> [u64; WORDS_PER_LINE] {
        // SAFETY: the sizes are the same, any bits are a word, and x86 is little-endian.
        unsafe { std::mem::transmute(self) }
    }

    /// One bit a half word (bit 0 the first): its bits under `mask` are `wanted`.
    #[inline(always)]
    pub fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32,
        };
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe {
            let (mask, wanted) = (_mm_set1_epi32(mask as i32), _mm_set1_epi32(wanted as i32));
            let [a, b, c, d] = self
                .0
                .map(|part| _mm_cmpeq_epi32(_mm_and_si128(part, mask), wanted));
            _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d))) as u32
        }
    }

    /// Whether any half word is zero.
    #[inline(always)]
    pub fn any_half_zero(self) -> bool {
        use std::arch::x86_64::{_mm_cmpeq_epi32, _mm_movemask_epi8, _mm_or_si128, _mm_setzero_si128};
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe {
            let [a, b, c, d] = self.0.map(|part| _mm_cmpeq_epi32(part, _mm_setzero_si128()));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) != 0
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Snapshot {
    /// The snapshot of these words.
    pub fn new(words: [u64; WORDS_PER_LINE]) -> Snapshot {
        Snapshot(words)
    }

    /// All words.
    #[inline(always)]
    pub fn words(self) -> [u64; WORDS_PER_LINE] {
        self.0
    }

    /// One bit a half word (bit 0 the first): its bits under `mask` are `wanted`.
    #[inline(always)]
    pub fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        (0..2 * WORDS_PER_LINE).fold(0, |bits, half| {
            bits | u32::from(self.half(half) & mask == wanted) << half
        })
    }

    /// Whether any half word is zero.
    #[inline(always)]
    pub fn any_half_zero(self) -> bool {
        (0..2 * WORDS_PER_LINE).any(|half| self.half(half) == 0)
    }
}

impl Snapshot {
    /// Half word number `half`, below 16.
    #[inline(always)]
    pub fn half(self, half: usize) -> u32 {
        let word = self.words()[half / 2 % WORDS_PER_LINE];
        (word >> (half % 2 * 32)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_words_and_halves_in_order() {
        let values: [u64; 8] = array::from_fn(|word| (2 * word as u64 + 1) << 32 | (2 * word as u64));
        let line = Line(values.map(AtomicU64::new));
        for snapshot in [line.snapshot(), Snapshot::new(values)] {
            assert_eq!(snapshot.words(), values);
            assert_eq!(
                array::from_fn(|half| snapshot.half(half)),
                array::from_fn::<u32, 16, _>(|half| half as u32)
            );
            for half in 0..16 {
                assert_eq!(snapshot.halves_equal(0xff, half), 1 << half);
            }
            assert_eq!(snapshot.halves_equal(1, 1), 0xaaaa);
            assert!(snapshot.any_half_zero());
        }
        assert!(!Snapshot::new([u64::MAX; 8]).any_half_zero());
    }
}
