//! A line in four vectors of 16 bytes: every x86-64 CPU has SSE2.

use crate::memory::line::{Lanes, Line};
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_castsi128_pd, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_movemask_pd,
    _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_set1_epi64x, _mm_shuffle_epi32,
};

/// Eight words.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sse2([__m128i; 4]);

// SAFETY: it is vectors of integers.
unsafe impl Lanes for Sse2 {
    const NAME: &'static str = "sse2";

    #[inline(always)]
    fn of_line(line: &Line) -> Sse2 {
        let (a, b, c, d);
        // SAFETY: the reference is valid for 64 bytes, aligned to as many. Each aligned 16-byte load reads both of its words
        // intact (AMD64 manual, volume 2, 7.3.2; Intel's, volume 3, 9.1.1), and x86 orders loads as acquire loads, so the
        // block does what eight of them would. It is not `pure`, so it stays between the atomic loads around it.
        unsafe {
            asm!(
                "movdqa {a}, [{line}]",
                "movdqa {b}, [{line} + 16]",
                "movdqa {c}, [{line} + 32]",
                "movdqa {d}, [{line} + 48]",
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                line = in(reg) line,
                options(nostack, preserves_flags, readonly),
            );
        }
        Sse2([a, b, c, d])
    }

    #[inline(always)]
    fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe {
            let (mask, wanted) = (_mm_set1_epi32(mask as i32), _mm_set1_epi32(wanted as i32));
            let [a, b, c, d] = self
                .0
                .map(|part| _mm_cmpeq_epi32(_mm_and_si128(part, mask), wanted));
            _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d))) as u32
        }
    }

    #[inline(always)]
    fn words_equal(self, masks: [u64; 2], wanted: [u64; 2]) -> u32 {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe {
            let masks = masks.map(|mask| _mm_set1_epi64x(mask as i64));
            let wanted = wanted.map(|wanted| _mm_set1_epi64x(wanted as i64));
            let bits = |part: usize| {
                let of = part / 2;
                let halves = _mm_cmpeq_epi32(_mm_and_si128(self.0[part], masks[of]), wanted[of]);
                // A word is equal if both of its halves are.
                let words = _mm_and_si128(halves, _mm_shuffle_epi32::<0b10_11_00_01>(halves));
                (_mm_movemask_pd(_mm_castsi128_pd(words)) as u32) << (2 * part)
            };
            bits(0) | bits(1) | bits(2) | bits(3)
        }
    }
}
