//! Toeplitz hash by 8x8 bit matrices in 512-bit vectors, for single tuples and batches.
//!
//! The contribution of input byte i to hash byte o is an 8x8 matrix over GF(2) times that byte. The matrix depends only on
//! the sum of i and o, so an input of N bytes has N + 3 of them, and `gf2p8affineqb` multiplies eight bytes by one. Matrix n
//! meets the input bytes n-3, n-2, n-1 and n, for the hash bytes 3, 2, 1 and 0. Taken together as a little-endian word,
//! these four bytes of input (a window) give four bytes of hash, the first hash byte most significant, without any
//! swap.

use super::transpose::{LANES, vector, words};
use crate::fields::HashFields;
use crate::key::Key;
use crate::tuple::{Tuple, ports};
use std::arch::x86_64::{
    __m128i, __m512i, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
    _mm_set_epi32, _mm_srli_si128, _mm_unpacklo_epi64, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_xor_si256, _mm512_castsi512_si256, _mm512_extracti64x4_epi64,
    _mm512_gf2p8affine_epi64_epi8, _mm512_inserti32x4, _mm512_permutexvar_epi8, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shrdi_epi32, _mm512_storeu_si512, _mm512_xor_si512, _mm512_zextsi128_si512,
};
use std::hint::black_box;

/// Windows of the longest input, 36 bytes and 3, and one to make whole vectors of eight.
const WINDOWS: usize = 40;

/// A key as matrices. It exists only if the CPU has the instructions.
#[derive(Clone, Debug)]
pub(super) struct Gfni {
    matrices: Box<Matrices>,
}

/// By input word, the matrices of the four windows that end in it; the last three windows end past the input.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Matrices([[u64; 4]; WINDOWS / 4]);

impl Gfni {
    pub(super) fn new(key: &Key) -> Option<Gfni> {
        let available = is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2");
        available.then(|| Gfni {
            matrices: Box::new(Matrices(std::array::from_fn(|word| {
                std::array::from_fn(|window| matrix(key, 4 * word + window))
            }))),
        })
    }

    /// `N` is 8, 12, 32 or 36.
    #[inline]
    pub(super) fn hash<const N: usize>(&self, input: &[u8; N]) -> u32 {
        // SAFETY: `new`, the only constructor, has found the features that `hash_one` is compiled for.
        unsafe { self.hash_one(input) }
    }

    /// Hashes complete groups of sixteen inputs, from the first on, and returns the number of inputs hashed. `N` is 8,
    /// 12, 32 or 36.
    pub(super) fn hash_sixteens<const N: usize>(&self, inputs: &[[u8; N]], hashes: &mut [u32]) -> usize {
        let (inputs, _) = inputs.as_chunks::<LANES>();
        let (hashes, _) = hashes.as_chunks_mut::<LANES>();
        // SAFETY: `new`, the only constructor, has found the features that `hash_lanes` is compiled for.
        unsafe {
            match N {
                8 => self.hash_lanes::<N, 2>(inputs, hashes),
                12 => self.hash_lanes::<N, 3>(inputs, hashes),
                32 => self.hash_lanes::<N, 8>(inputs, hashes),
                _ => self.hash_lanes::<N, 9>(inputs, hashes),
            }
        }
        LANES * inputs.len().min(hashes.len())
    }

    /// The hash of these fields of a tuple, read in place: building the input first needs a store and a dependent load,
    /// which take half of the time of an IPv6 hash.
    #[inline]
    pub(super) fn hash_tuple(&self, tuple: &Tuple, fields: HashFields) -> u32 {
        // SAFETY: `new`, the only constructor, has found the features that `hash_read` is compiled for.
        unsafe { self.hash_read(tuple, fields) }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn hash_read(&self, tuple: &Tuple, fields: HashFields) -> u32 {
        match tuple {
            Tuple::V4 { source, destination } => {
                let ports = ports(source.port(), destination.port(), fields);
                let [low, high] = [source, destination].map(|end| end.ip().to_bits().to_be());
                let bytes = _mm_set_epi32(0, i32::from_le_bytes(ports), high as i32, low as i32);
                self.hash_bytes::<12>(_mm512_zextsi128_si512(bytes))
            }
            Tuple::V6 { source, destination } => {
                let ports = ports(source.port(), destination.port(), fields);
                let [first, second] = [source, destination].map(|end| address(&end.ip().octets()));
                let addresses = _mm512_inserti32x4::<1>(_mm512_zextsi128_si512(first), second);
                let ports = _mm_cvtsi32_si128(i32::from_le_bytes(ports));
                self.hash_bytes::<36>(_mm512_inserti32x4::<2>(addresses, ports))
            }
        }
    }

    #[inline]
    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn hash_one<const N: usize>(&self, input: &[u8; N]) -> u32 {
        self.hash_bytes::<N>(bytes(input))
    }

    /// Eight windows at a time, each in a lane of 64 bits with its matrix. `bytes` is `N` bytes of input and zeros.
    #[inline]
    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn hash_bytes<const N: usize>(&self, bytes: __m512i) -> u32 {
        let (matrices, _) = self.matrices.0.as_flattened().as_chunks::<8>();
        let mut sum = _mm512_setzero_si512();
        for (windows, matrices) in WINDOW_BYTES.0.iter().zip(matrices).take((N + 3).div_ceil(8)) {
            let windows = _mm512_permutexvar_epi8(vector(windows), bytes);
            let products = _mm512_gf2p8affine_epi64_epi8::<0>(windows, vector(matrices));
            sum = _mm512_xor_si512(sum, products);
        }
        let four = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
        let two = _mm_xor_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
        _mm_cvtsi128_si32(_mm_xor_si128(two, _mm_srli_si128::<8>(two))) as u32
    }

    /// Sixteen inputs at a time, each in a lane of 32 bits, window by window. `W` is the number of words, `N / 4`.
    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn hash_lanes<const N: usize, const W: usize>(
        &self,
        inputs: &[[[u8; N]; LANES]],
        hashes: &mut [[u32; LANES]],
    ) {
        for (inputs, hashes) in inputs.iter().zip(hashes) {
            // Otherwise the compiler broadcasts every matrix to a vector before the loop and, with more matrices than
            // registers, spills them to the stack. Hiding that they are constant makes each multiplication load its own
            // matrix.
            let matrices = black_box(&self.matrices);
            let sum = hash_words::<W>(matrices, words(inputs));
            // SAFETY: the sixteen hashes are the 64 bytes that are written.
            unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), sum) };
        }
    }
}

/// The hashes of sixteen inputs, given word by word.
#[inline]
#[target_feature(enable = "gfni,avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
fn hash_words<const W: usize>(matrices: &Matrices, words: [__m512i; W]) -> __m512i {
    let matrices = &matrices.0;
    let zero = _mm512_setzero_si512();
    let (mut sum, mut before) = (zero, zero);
    for k in 0..W {
        sum = _mm512_xor_si512(sum, across(before, words[k], &matrices[k]));
        sum = _mm512_xor_si512(sum, times(words[k], matrices[k][3]));
        before = words[k];
    }
    _mm512_xor_si512(sum, across(before, zero, &matrices[W]))
}

/// Contribution of the three windows that start in one word and end in the next.
#[inline]
#[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
fn across(word: __m512i, next: __m512i, matrices: &[u64; 4]) -> __m512i {
    let first = times(_mm512_shrdi_epi32::<8>(word, next), matrices[0]);
    let second = times(_mm512_shrdi_epi32::<16>(word, next), matrices[1]);
    let third = times(_mm512_shrdi_epi32::<24>(word, next), matrices[2]);
    _mm512_xor_si512(_mm512_xor_si512(first, second), third)
}

/// Every byte of `window` multiplied by the matrix.
#[inline]
#[target_feature(enable = "gfni,avx512f")]
fn times(window: __m512i, matrix: u64) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(window, _mm512_set1_epi64(matrix as i64))
}

/// The input followed by zeros, read in the pieces in which a tuple is stored: both IPv4 addresses at once, or each
/// IPv6 address by itself, then the ports.
#[inline]
#[target_feature(enable = "avx512f")]
fn bytes<const N: usize>(input: &[u8; N]) -> __m512i {
    let (fours, _) = input.as_chunks::<4>();
    let ports = if N % 8 == 4 {
        i32::from_le_bytes(fours[N / 4 - 1])
    } else {
        0
    };
    let ports = _mm_cvtsi32_si128(ports);
    if let ([source, destination], _) = input.as_chunks::<16>() {
        let [source, destination] = [source, destination].map(address);
        let addresses = _mm512_inserti32x4::<1>(_mm512_zextsi128_si512(source), destination);
        _mm512_inserti32x4::<2>(addresses, ports)
    } else {
        let (eights, _) = input.as_chunks::<8>();
        let addresses = _mm_cvtsi64_si128(i64::from_le_bytes(eights[0]));
        _mm512_zextsi128_si512(_mm_unpacklo_epi64(addresses, ports))
    }
}

/// The bytes of an IPv6 address, the first one lowest.
#[inline]
fn address(octets: &[u8; 16]) -> __m128i {
    // SAFETY: the address has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(octets.as_ptr().cast()) }
}

/// The matrix of a window: its row t, the byte at 8t, makes bit t (first bit 0) of the hash byte, and has the eight key
/// bits from 8 * window + t on.
fn matrix(key: &Key, window: usize) -> u64 {
    let row = |t: usize| u64::from(key.window(8 * window + t) >> 24);
    (0..8).fold(0, |matrix, t| matrix | row(t) << (8 * t))
}

/// For each byte of five vectors of eight windows, the index of its input byte; 63, a zero byte, if there is none.
static WINDOW_BYTES: WindowBytes = WindowBytes({
    let mut bytes = [[63; 64]; WINDOWS / 8];
    let mut window = 0;
    while window < WINDOWS {
        let mut byte = 0;
        while byte < 4 {
            if window + byte >= 3 {
                bytes[window / 8][window % 8 * 8 + byte] = (window + byte - 3) as u8;
            }
            byte += 1;
        }
        window += 1;
    }
    bytes
});

#[repr(align(64))]
struct WindowBytes([[u8; 64]; WINDOWS / 8]);
