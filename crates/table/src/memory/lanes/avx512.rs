//! A line in one vector of 64 bytes, and the work compiled for CPUs with AVX-512.

use crate::memory::line::{Kernel, Lanes, Line};
use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_cvtsi128_si32, _mm_cvtsi128_si64, _mm256_set1_epi64x, _mm512_and_si512,
    _mm512_castsi256_si512, _mm512_castsi512_si128, _mm512_cmpeq_epi32_mask, _mm512_cmpeq_epi64_mask,
    _mm512_inserti64x4, _mm512_maskz_compress_epi32, _mm512_maskz_compress_epi64, _mm512_set1_epi32,
};

/// Eight words.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Avx512(__m512i);

/// Whether this CPU has the features that [`run`] is compiled for.
#[inline]
pub(super) fn is_there() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && super::avx2::is_there()
}

/// The work, compiled for such a CPU.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx2,bmi1,bmi2")]
pub(super) fn run(kernel: impl Kernel) {
    kernel.run::<Avx512>();
}

/// The words of a line.
#[target_feature(enable = "avx512f")]
#[inline]
fn load(line: &Line) -> Avx512 {
    let whole;
    // SAFETY: as for SSE2. A load of 32 bytes may be split, but never within an aligned word. Two loads and not one: the
    // first half must be read before the second.
    unsafe {
        asm!(
            "vmovdqa {whole:y}, [{line}]",
            "vinserti64x4 {whole}, {whole}, [{line} + 32], 1",
            whole = out(zmm_reg) whole,
            line = in(reg) line,
            options(nostack, preserves_flags, readonly),
        );
    }
    Avx512(whole)
}

// SAFETY: it is vectors of integers.
unsafe impl Lanes for Avx512 {
    const NAME: &'static str = "avx512";

    #[inline(always)]
    fn of_line(line: &Line) -> Avx512 {
        // SAFETY: only `run` gives out this type, and its caller vouches for AVX-512.
        unsafe { load(line) }
    }

    #[inline(always)]
    fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            let masked = _mm512_and_si512(self.0, _mm512_set1_epi32(mask as i32));
            u32::from(_mm512_cmpeq_epi32_mask(masked, _mm512_set1_epi32(wanted as i32)))
        }
    }

    #[inline(always)]
    fn words_equal(self, masks: [u64; 2], wanted: [u64; 2]) -> u32 {
        // SAFETY: as above.
        unsafe {
            let both = |[first, last]: [u64; 2]| {
                let first = _mm512_castsi256_si512(_mm256_set1_epi64x(first as i64));
                _mm512_inserti64x4::<1>(first, _mm256_set1_epi64x(last as i64))
            };
            u32::from(_mm512_cmpeq_epi64_mask(
                _mm512_and_si512(self.0, both(masks)),
                both(wanted),
            ))
        }
    }

    /// In registers: over memory, a load of four bytes would wait for the store of sixty-four.
    #[inline(always)]
    fn half_at(self, bits: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            _mm_cvtsi128_si32(_mm512_castsi512_si128(_mm512_maskz_compress_epi32(
                bits as u16,
                self.0,
            ))) as u32
        }
    }

    #[inline(always)]
    fn word_at(self, bits: u32) -> u64 {
        // SAFETY: as above.
        unsafe {
            _mm_cvtsi128_si64(_mm512_castsi512_si128(_mm512_maskz_compress_epi64(
                bits as u8, self.0,
            ))) as u64
        }
    }
}
