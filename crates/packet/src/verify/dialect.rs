//! Dialects: variants of the Toeplitz hash that some devices compute from the same key and bytes.

use corelane_rss::infer::Relation;
use corelane_rss::{Key, Toeplitz, Transform};

/// A variant of the Toeplitz hash that some device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// The key's bytes in reverse order.
    ReversedKey,
    /// The initial value is all ones instead of zero.
    InitialOnes,
    /// Reversed key bytes and an initial value of all ones (older ENA devices).
    ReversedKeyInitialOnes,
    /// The key shifted by one byte, with a leading zero byte (virtio_net of some kernels).
    ShiftedKey,
    /// Each address and port replaced by the XOR of both ends (`symmetric-xor` of ethtool).
    SymmetricXor,
    /// The first of each pair replaced by the OR of both ends, the second by their XOR (`symmetric-or-xor`).
    SymmetricOrXor,
    /// The smaller address and the smaller port first (symmetric Toeplitz of DPDK, older ENA devices).
    SymmetricSort,
    /// The ends of a flow are not mixed, although the rule says so.
    NotSymmetric,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 8] = [
        Dialect::ReversedKey,
        Dialect::InitialOnes,
        Dialect::ReversedKeyInitialOnes,
        Dialect::ShiftedKey,
        Dialect::SymmetricXor,
        Dialect::SymmetricOrXor,
        Dialect::SymmetricSort,
        Dialect::NotSymmetric,
    ];

    /// The dialect's name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The name, the relation of the keys, how the ends are mixed (`None`: as the rule says), and the value added to the hash.
    fn facts(self) -> (&'static str, Relation, Option<Transform>, u32) {
        use {Relation as R, Transform as T};
        match self {
            Dialect::ReversedKey => ("reversed-key", R::BytesReversed, None, 0),
            // An initial value is XORed into the hash unchanged.
            Dialect::InitialOnes => ("initial-ones", R::Same, None, u32::MAX),
            Dialect::ReversedKeyInitialOnes => {
                ("reversed-key-initial-ones", R::BytesReversed, None, u32::MAX)
            }
            Dialect::ShiftedKey => ("shifted-key", R::ShiftedLater(1), None, 0),
            Dialect::SymmetricXor => ("symmetric-xor", R::Same, Some(T::SymmetricXor), 0),
            Dialect::SymmetricOrXor => ("symmetric-or-xor", R::Same, Some(T::SymmetricOrXor), 0),
            Dialect::SymmetricSort => ("symmetric-sort", R::Same, Some(T::SymmetricSort), 0),
            Dialect::NotSymmetric => ("not-symmetric", R::Same, Some(T::Plain), 0),
        }
    }

    /// The key as devices of this dialect use it, for [`Dialect::hash`].
    pub(super) fn toeplitz(self, key: &Key) -> Toeplitz {
        let (_, relation, ..) = self.facts();
        let key = relation.applied(key).expect("a key of the same length");
        Toeplitz::new(&key)
    }

    /// The hash of a tuple's bytes, laid out as a device hashes them: 8, 12, 32 or 36, and not mixed; `of_rule` is how the rule
    /// mixes them.
    pub(super) fn hash(self, toeplitz: &Toeplitz, input: &[u8], of_rule: Transform) -> u32 {
        let (_, _, transform, initial) = self.facts();
        let mixed = transform.unwrap_or(of_rule).of_input(input);
        toeplitz.hash_input(&mixed[..input.len()]) ^ initial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::oracle;

    /// 1.2.3.4:5 to 6.7.8.9:10.
    const INPUT: [u8; 12] = [1, 2, 3, 4, 6, 7, 8, 9, 0, 5, 0, 10];

    fn hash(dialect: Dialect, input: &[u8]) -> u32 {
        dialect.hash(&dialect.toeplitz(&Key::VERIFICATION), input, Transform::Plain)
    }

    #[test]
    fn symmetric_dialects_hash_both_directions_alike_and_as_ethtool_says() {
        let answer = [6, 7, 8, 9, 1, 2, 3, 4, 0, 10, 0, 5];
        let xor = [7, 5, 11, 13, 7, 5, 11, 13, 0, 15, 0, 15];
        let or_xor = [7, 7, 11, 13, 7, 5, 11, 13, 0, 15, 0, 15];
        for (dialect, bytes) in [
            (Dialect::SymmetricXor, xor),
            (Dialect::SymmetricOrXor, or_xor),
            (Dialect::SymmetricSort, INPUT),
        ] {
            let expected = oracle::toeplitz(&Key::VERIFICATION, &bytes);
            assert_eq!(hash(dialect, &INPUT), expected, "{dialect:?}");
            assert_eq!(hash(dialect, &answer), expected, "{dialect:?}");
        }
    }

    #[test]
    fn a_start_value_of_ones_is_the_complement() {
        let plain = oracle::toeplitz(&Key::VERIFICATION, &INPUT);
        assert_eq!(hash(Dialect::InitialOnes, &INPUT), !plain);
    }

    #[test]
    fn keys_turn_and_move_by_bytes() {
        let mut reversed = Key::VERIFICATION.as_bytes().to_vec();
        reversed.reverse();
        let reversed = oracle::toeplitz(&Key::from_bytes(&reversed).unwrap(), &INPUT);
        assert_eq!(hash(Dialect::ReversedKey, &INPUT), reversed);
        assert_eq!(hash(Dialect::ReversedKeyInitialOnes, &INPUT), !reversed);
        // Except for the first byte, shifting the key by a byte is the same as shifting the input the other way.
        let moved = oracle::toeplitz(&Key::VERIFICATION, &INPUT[1..]);
        let mut without_first = INPUT;
        without_first[0] = 0;
        assert_eq!(hash(Dialect::ShiftedKey, &without_first), moved);
    }
}
