//! A line in two vectors of 32 bytes, and the work compiled for CPUs with AVX2 (2013 and later).

use crate::memory::line::{Kernel, Lanes, Line};
use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_cmpeq_epi64, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setzero_si256,
};

/// Eight words.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Avx2([__m256i; 2]);

/// Whether this CPU has the features that [`run`] is compiled for.
#[inline]
pub(super) fn is_there() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// The work, compiled for such a CPU.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn run(kernel: impl Kernel) {
    kernel.run::<Avx2>();
}

/// The words of a line.
#[target_feature(enable = "avx2")]
#[inline]
fn load(line: &Line) -> Avx2 {
    let (a, b);
    // SAFETY: as for SSE2. A load of 32 bytes may be split, but never within an aligned word.
    unsafe {
        asm!(
            "vmovdqa {a}, [{line}]",
            "vmovdqa {b}, [{line} + 32]",
            a = out(ymm_reg) a,
            b = out(ymm_reg) b,
            line = in(reg) line,
            options(nostack, preserves_flags, readonly),
        );
    }
    Avx2([a, b])
}

// SAFETY: it is vectors of integers.
unsafe impl Lanes for Avx2 {
    const NAME: &'static str = "avx2";

    #[inline(always)]
    fn of_line(line: &Line) -> Avx2 {
        // SAFETY: only `run` gives out this type, and its caller vouches for AVX2.
        unsafe { load(line) }
    }

    #[inline(always)]
    fn halves_equal(self, mask: u32, wanted: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            let (mask, wanted) = (_mm256_set1_epi32(mask as i32), _mm256_set1_epi32(wanted as i32));
            let [a, b] = self.0.map(|part| {
                let equal = _mm256_cmpeq_epi32(_mm256_and_si256(part, mask), wanted);
                _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32
            });
            a | b << 8
        }
    }

    #[inline(always)]
    fn any_half_zero(self) -> bool {
        // SAFETY: as above.
        unsafe {
            let [a, b] = self
                .0
                .map(|part| _mm256_cmpeq_epi32(part, _mm256_setzero_si256()));
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_or_si256(a, b))) != 0
        }
    }

    #[inline(always)]
    fn words_equal(self, masks: [u64; 2], wanted: [u64; 2]) -> u32 {
        // SAFETY: as above.
        unsafe {
            let bits = |part: usize| {
                let mask = _mm256_set1_epi64x(masks[part] as i64);
                let wanted = _mm256_set1_epi64x(wanted[part] as i64);
                let equal = _mm256_cmpeq_epi64(_mm256_and_si256(self.0[part], mask), wanted);
                _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32
            };
            bits(0) | bits(1) << 4
        }
    }
}
