//! The hash of a key: which partition owns it, and where its index has it.

use xxhash_rust::xxh64::xxh64;

/// XXH64 of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash(u64);

/// The hash of a key under a seed. XXH64 (<https://xxhash.com>, `doc/xxhash_spec.md`), so that clients and packet filters can
/// compute it, too.
#[inline]
#[must_use]
pub fn hash(key: &[u8], seed: u64) -> Hash {
    Hash(xxh64(key, seed))
}

impl Hash {
    /// The partition that owns the key, of `partitions`: an equal share of the high 32 bits. Partitions index by the low bits,
    /// so that the keys of one partition are spread over its whole index.
    ///
    /// # Panics
    /// If there are more than 2³² partitions (in debug builds).
    #[inline]
    #[must_use]
    pub const fn owner(self, partitions: usize) -> usize {
        (((self.0 >> 32) * partitions as u64) >> 32) as usize
    }

    /// The hash of these 64 bits, as [`value`](Hash::value) has them.
    #[inline]
    #[must_use]
    pub const fn of_value(value: u64) -> Hash {
        Hash(value)
    }

    /// The 64 bits.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The empty input with seed 0 is an example of the specification.
    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(b"", 0).value(), 0xef46_db37_51d8_e999);
        assert_ne!(hash(b"", 1), hash(b"", 0));
    }

    #[test]
    fn each_partition_owns_an_equal_share() {
        let mut owned = [0; 3];
        for number in 0..30_000_u32 {
            owned[hash(&number.to_le_bytes(), 7).owner(3)] += 1;
        }
        assert!(
            owned.iter().all(|keys| (9_500..10_500).contains(keys)),
            "{owned:?}"
        );
    }
}
