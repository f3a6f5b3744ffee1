//! Toeplitz hash by carry-less multiplication.
//!
//! A carry-less product is a convolution over GF(2), and the Toeplitz hash is a correlation: reversing one operand turns
//! one into the other. The key is reversed, once. Take eight bytes of input, bit i (first bit 0) as the coefficient of
//! x^(63-i). Hash bit j sums the products of input bit i and the key bit e = i + j after the input's position, e from 0 to
//! 94, which does not fit 64 bits: key bits 0 to 62 are the coefficients of x^(e+1) in a near factor and those from 63 on
//! of x^(e-63) in a far one. Then hash bit j is the coefficient of x^(64+j) in the near product, the lowest of its upper
//! half, and of x^j in the far product. Products of all positions are added before the bits are taken out and put in order.

use crate::key::Key;
use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si32, _mm_set_epi64x, _mm_setzero_si128,
    _mm_unpackhi_epi64, _mm_xor_si128,
};

/// A key reversed for multiplication. It exists only where the CPU has the instruction.
#[derive(Clone, Debug)]
pub(super) struct Carryless {
    /// For each eight bytes of input the near factor (lower half) and the far one.
    factors: [__m128i; 5],
}

impl Carryless {
    pub(super) fn new(key: &Key) -> Option<Carryless> {
        is_x86_feature_detected!("pclmulqdq").then(|| Carryless {
            // SAFETY: SSE2, which `factors` is compiled for, is part of x86-64.
            factors: std::array::from_fn(|quad| unsafe { factors(key, 64 * quad) }),
        })
    }

    /// `N` is 8, 12, 32 or 36.
    #[inline]
    pub(super) fn hash<const N: usize>(&self, input: &[u8; N]) -> u32 {
        // SAFETY: `new`, the only constructor, has found the feature that `multiply` is compiled for.
        unsafe { self.multiply(input) }
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn multiply<const N: usize>(&self, input: &[u8; N]) -> u32 {
        let (mut near, mut far) = (_mm_setzero_si128(), _mm_setzero_si128());
        let (addresses, ports) = input.as_chunks::<8>();
        for (eight, &factors) in addresses.iter().zip(&self.factors) {
            let eight = _mm_cvtsi64_si128(u64::from_be_bytes(*eight) as i64);
            near = _mm_xor_si128(near, _mm_clmulepi64_si128::<0x00>(eight, factors));
            far = _mm_xor_si128(far, _mm_clmulepi64_si128::<0x10>(eight, factors));
        }
        // Four bytes reach as far as key bit 31 + 31 = 62: there is no far product.
        if let Some(four) = ports.first_chunk::<4>() {
            let four = _mm_cvtsi64_si128((u64::from(u32::from_be_bytes(*four)) << 32) as i64);
            let product = _mm_clmulepi64_si128::<0x00>(four, self.factors[addresses.len()]);
            near = _mm_xor_si128(near, product);
        }
        let reversed = _mm_xor_si128(_mm_unpackhi_epi64(near, near), far);
        (_mm_cvtsi128_si32(reversed) as u32).reverse_bits()
    }
}

/// Both factors of the key from bit `first` on.
#[target_feature(enable = "sse2")]
fn factors(key: &Key, first: usize) -> __m128i {
    let bits = |from: usize| u64::from(key.window(from)) << 32 | u64::from(key.window(from + 32));
    let near = bits(first).reverse_bits() << 1;
    let far = bits(first + 63).reverse_bits();
    _mm_set_epi64x(far as i64, near as i64)
}
