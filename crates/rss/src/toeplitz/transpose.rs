//! Transposes sixteen inputs: for each word position, a vector with that word of every input.

use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_castsi256_si512, _mm512_inserti64x4, _mm512_loadu_si512,
    _mm512_mask_permutexvar_epi32, _mm512_permutex2var_epi32, _mm512_setzero_si512,
};

/// Inputs side by side: the 32-bit lanes of a vector.
pub(super) const LANES: usize = 16;

/// Word k of each input, for every k. `W` is 2, 3, 8 or 9, and `N` its bytes.
///
/// The few words of IPv4 are selected one by one, with `W` permutations each. IPv6 addresses are unzipped: selecting
/// every other word of all inputs three times leaves every eighth.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn words<const N: usize, const W: usize>(inputs: &[[u8; N]; LANES]) -> [__m512i; W] {
    let mut words = [_mm512_setzero_si512(); W];
    let picked = if W < 8 {
        0
    } else {
        let addresses =
            std::array::from_fn(|pair| pair_of_addresses(&inputs[2 * pair], &inputs[2 * pair + 1]));
        words[..8].copy_from_slice(&unzip(unzip(unzip(addresses))));
        8
    };
    for (k, word) in words.iter_mut().enumerate().skip(picked) {
        *word = pick::<W>(inputs.as_flattened(), k);
    }
    words
}

/// Word `k` of each input out of sixteen inputs of `W` words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pick<const W: usize>(bytes: &[u8], k: usize) -> __m512i {
    let (vectors, _) = bytes.as_chunks::<64>();
    let mut word = _mm512_setzero_si512();
    for (number, bytes) in vectors.iter().enumerate().take(W) {
        let (lanes, from) = (Pick::<W>::LANES_OF[k][number], vector(&Pick::<W>::FROM[k]));
        word = _mm512_mask_permutexvar_epi32(word, lanes, from, vector(bytes));
    }
    word
}

/// Positions of the words of sixteen inputs of `W` words in the `W` vectors that the inputs fill.
struct Pick<const W: usize>;

impl<const W: usize> Pick<W> {
    /// By word and lane: the lane of its vector that holds this input's word.
    const FROM: [[u32; LANES]; W] = {
        let mut from = [[0; LANES]; W];
        let mut at = 0;
        while at < W * LANES {
            from[at % W][at / W] = (at % LANES) as u32;
            at += 1;
        }
        from
    };

    /// By word and vector: the lanes (bits) whose input has its word in that vector.
    const LANES_OF: [[u16; W]; W] = {
        let mut lanes = [[0; W]; W];
        let mut at = 0;
        while at < W * LANES {
            lanes[at % W][at / LANES] |= 1 << (at / W);
            at += 1;
        }
        lanes
    };
}

/// The 32 bytes of addresses of two IPv6 inputs.
#[inline]
#[target_feature(enable = "avx512f")]
fn pair_of_addresses<const N: usize>(first: &[u8; N], second: &[u8; N]) -> __m512i {
    assert!(N >= 32);
    // SAFETY: both inputs have the 32 bytes that are read.
    let [first, second] = [first, second].map(|input| unsafe { _mm256_loadu_si256(input.as_ptr().cast()) });
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
}

/// The words at even positions, then those at odd positions.
#[inline]
#[target_feature(enable = "avx512f")]
fn unzip(row: [__m512i; 8]) -> [__m512i; 8] {
    const EVEN: [u32; LANES] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
    const ODD: [u32; LANES] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
    std::array::from_fn(|place| {
        let (places, pair) = if place < 4 {
            (&EVEN, place)
        } else {
            (&ODD, place - 4)
        };
        _mm512_permutex2var_epi32(row[2 * pair], vector(places), row[2 * pair + 1])
    })
}

/// 64 bytes as a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn vector<T, const L: usize>(values: &[T; L]) -> __m512i {
    const { assert!(size_of::<[T; L]>() == 64) };
    // SAFETY: the values are the 64 bytes that are read, and have no padding, being integers.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}
