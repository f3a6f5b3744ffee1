//! Seeded mixes of keys: bijections where a slot must give the key back, a hash where the key is kept beside it.
//!
//! They spread keys from untrusted sources (addresses of a list, of an attacker) evenly over buckets. Without the seed,
//! keys cannot be aimed at one bucket by simple arithmetic. The mixes are not cryptographic.

use crate::memory::scalar;

/// Seed of a table's mix. It should be random if the keys come from untrusted sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Default for Seed {
    /// A fixed seed, so that runs repeat: the golden ratio's fraction.
    fn default() -> Seed {
        Seed(GOLDEN)
    }
}

impl Seed {
    /// Another seed that follows from this one: the next of splitmix64.
    pub(crate) fn next(self) -> Seed {
        let state = self.0.wrapping_add(GOLDEN);
        let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Seed(state ^ state >> 31)
    }
}

/// 2^64 over the golden ratio, odd: its multiples spread evenly (Knuth, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd multipliers of a 32-bit mix with little bias (Wellons, "Prospecting for hash functions").
const FIRST: u32 = 0x21f0_aaad;
const SECOND: u32 = 0x735a_2d97;

/// A bijection of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Mix32 {
    before: u32,
    between: u32,
}

impl From<Seed> for Mix32 {
    fn from(seed: Seed) -> Mix32 {
        Mix32 {
            before: seed.0 as u32,
            between: (seed.0 >> 32) as u32,
        }
    }
}

impl Mix32 {
    #[inline(always)]
    pub(crate) fn mix(self, key: u32) -> u32 {
        let mixed = key ^ self.before;
        let mixed = (mixed ^ mixed >> 16).wrapping_mul(FIRST) ^ self.between;
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(SECOND);
        mixed ^ mixed >> 15
    }

    /// The key that was mixed.
    pub(crate) fn unmix(self, mixed: u32) -> u32 {
        let mixed = unfold(mixed, 15).wrapping_mul(const { inverse(SECOND) });
        let mixed = (unfold(mixed, 15) ^ self.between).wrapping_mul(const { inverse(FIRST) });
        unfold(mixed, 16) ^ self.before
    }
}

/// The number whose `x ^ x >> shift` is `folded`.
fn unfold(folded: u32, shift: u32) -> u32 {
    let shifts = (0..u32::BITS).step_by(shift as usize);
    shifts.fold(0, |number, shift| number ^ folded >> shift)
}

/// The inverse of an odd number modulo 2^32: each step of Newton's doubles the right bits, of which an odd number has
/// three to begin with.
const fn inverse(odd: u32) -> u32 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 4 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// A bijection of 128 bits: three rounds of a Feistel network, so that each half depends on both.
#[derive(Clone, Copy, Debug)]
pub struct Mix128 {
    rounds: [u64; 3],
}

impl From<Seed> for Mix128 {
    fn from(seed: Seed) -> Mix128 {
        let second = seed.next();
        Mix128 {
            rounds: [seed.0, second.0, second.next().0],
        }
    }
}

impl Mix128 {
    #[inline(always)]
    pub(crate) fn mix(self, upper: u64, lower: u64) -> (u64, u64) {
        let upper = upper.wrapping_add(fold(lower ^ self.rounds[0], GOLDEN));
        let lower = lower.wrapping_add(fold(upper ^ self.rounds[1], GOLDEN));
        (upper.wrapping_add(fold(lower ^ self.rounds[2], GOLDEN)), lower)
    }

    /// The key that was mixed.
    pub(crate) fn unmix(self, upper: u64, lower: u64) -> (u64, u64) {
        let upper = upper.wrapping_sub(fold(lower ^ self.rounds[2], GOLDEN));
        let lower = lower.wrapping_sub(fold(upper ^ self.rounds[1], GOLDEN));
        (upper.wrapping_sub(fold(lower ^ self.rounds[0], GOLDEN)), lower)
    }
}

/// A hash of a fixed number of words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashWords {
    seed: Seed,
    multiplier: u64,
}

impl HashWords {
    pub(crate) fn new(seed: Seed) -> HashWords {
        HashWords {
            seed,
            multiplier: seed.next().0 | 1,
        }
    }

    #[inline(always)]
    pub(crate) fn hash<const WORDS: usize>(self, words: &[u64; WORDS]) -> u64 {
        let hash = words.iter().fold(self.seed.0, |hash, word| {
            fold(hash ^ word, self.multiplier) ^ hash.rotate_left(23)
        });
        fold(hash ^ GOLDEN, self.multiplier)
    }
}

/// Both halves of a product, folded onto each other: one multiplication that mixes every bit.
#[inline(always)]
fn fold(word: u64, multiplier: u64) -> u64 {
    let product = u128::from(scalar(word)) * u128::from(multiplier);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mixes_are_bijections(seed: u64, upper: u64, lower: u64) {
            let small = Mix32::from(Seed(seed));
            prop_assert_eq!(small.unmix(small.mix(lower as u32)), lower as u32);
            let large = Mix128::from(Seed(seed));
            let (mixed_upper, mixed_lower) = large.mix(upper, lower);
            prop_assert_eq!(large.unmix(mixed_upper, mixed_lower), (upper, lower));
        }
    }

    /// The deviation of `keys` hashes from an even distribution over 4,096 buckets (by the highest bits): chi-square
    /// per bucket, about 1 for random hashes.
    fn unevenness(keys: u32, hash: impl Fn(u32) -> u64) -> f64 {
        let mut counts = vec![0_u32; 4_096];
        for key in 0..keys {
            counts[(hash(key) >> 52) as usize] += 1;
        }
        let mean = f64::from(keys) / 4_096.0;
        let square = |count: &u32| (f64::from(*count) - mean).powi(2) / mean;
        counts.iter().map(square).sum::<f64>() / 4_096.0
    }

    #[test]
    fn consecutive_keys_and_keys_that_differ_in_one_byte_spread_as_random_ones_do() {
        for seed in [Seed::default(), Seed(0), Seed(1)] {
            let (small, large, words) = (Mix32::from(seed), Mix128::from(seed), HashWords::new(seed));
            for shift in [0, 4, 8, 12] {
                let spreads = [
                    unevenness(1 << 20, |key| u64::from(small.mix(key << shift)) << 32),
                    unevenness(1 << 20, |key| large.mix(u64::from(key) << shift, 1).0),
                    unevenness(1 << 20, |key| large.mix(1, u64::from(key) << shift).0),
                    unevenness(1 << 20, |key| words.hash(&[u64::from(key) << shift, 7])),
                    unevenness(1 << 20, |key| words.hash(&[7, u64::from(key) << shift])),
                ];
                for (mix, spread) in spreads.iter().enumerate() {
                    assert!(*spread < 1.3, "mix {mix} of {seed:?} at shift {shift}: {spread}");
                }
            }
        }
    }
}
