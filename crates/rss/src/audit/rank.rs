//! Ranks over GF(2) of a key and fields, which give the number of different hashes.

use super::symmetry::Family;
use crate::fields::HashFields;
use crate::key::Key;
use crate::transform::Transform;
use serde::Serialize;
use std::ops::Range;

/// Effect of one field of the packet on the low bits of the hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldRank {
    /// The packet's family.
    pub family: Family,
    /// The field, or the part of it.
    pub field: &'static str,
    /// Bits of the field.
    pub input_bits: usize,
    /// Rank: the field alone reaches 2^rank entries.
    pub rank: usize,
    /// The highest possible rank for this number of input and hash bits.
    pub possible: usize,
    /// Whether there are so few input bits that random keys often miss the possible rank too.
    pub minor: bool,
}

/// With this many input bits more than table bits, a random matrix misses full rank less than once in 100.
const SPARE_BITS: usize = 7;

/// The rank of the whole hash over all fields: how many of its 32 bits are independent. For two families, the lower
/// rank.
#[must_use]
pub fn hash_rank(key: &Key, fields: HashFields, transform: Transform) -> usize {
    let rank = |family: Family| {
        let bits = 0..family.input_bits(fields);
        rank(bits.map(|bit| change(key, family, transform, bit)))
    };
    Family::ALL.map(rank).into_iter().min().unwrap_or(0)
}

/// The effect of each field on the low `table_bits` bits.
pub(super) fn fields(key: &Key, fields: HashFields, table_bits: u32, transform: Transform) -> Vec<FieldRank> {
    let mask = (1_u64 << table_bits) as u32 - 1;
    let mut ranks = Vec::new();
    for family in Family::ALL {
        for (field, bits) in fields_of(family, fields) {
            let input_bits = bits.len();
            let possible = input_bits.min(table_bits as usize);
            ranks.push(FieldRank {
                family,
                field,
                input_bits,
                rank: rank(bits.map(|bit| change(key, family, transform, bit) & mask)),
                possible,
                minor: input_bits < possible + SPARE_BITS,
            });
        }
    }
    ranks
}

/// The change of the hash with a bit of the packet. XORed ends change both places; the other transforms move bits, so that each
/// changes one place.
fn change(key: &Key, family: Family, transform: Transform, bit: usize) -> u32 {
    if transform != Transform::SymmetricXor {
        return key.window(bit);
    }
    let (source, destination) = family.both_ends(bit);
    key.window(source) ^ key.window(destination)
}

/// Fields whose bits vary between flows, and their position in the input.
fn fields_of(family: Family, fields: HashFields) -> Vec<(&'static str, Range<usize>)> {
    let address = family.address_bits();
    let mut list = vec![
        ("source address", 0..address),
        ("source address, last 16 bits", address - 16..address),
        ("source address, last 8 bits", address - 8..address),
        ("destination address", address..2 * address),
    ];
    if fields == HashFields::FourTuple {
        list.push(("source port", 2 * address..2 * address + 16));
        list.push(("destination port", 2 * address + 16..2 * address + 32));
    }
    list
}

/// The rank of these vectors over GF(2).
fn rank(vectors: impl Iterator<Item = u32>) -> usize {
    // For each bit, the reduced vector with that highest bit, if any.
    let mut pivots = [0_u32; 32];
    let mut rank = 0;
    for mut vector in vectors {
        while vector != 0 {
            let top = vector.ilog2() as usize;
            if pivots[top] == 0 {
                pivots[top] = vector;
                rank += 1;
                break;
            }
            vector ^= pivots[top];
        }
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_elimination_by_hand() {
        assert_eq!(rank([].into_iter()), 0);
        assert_eq!(rank([0, 0].into_iter()), 0);
        assert_eq!(rank([0b110, 0b011, 0b101].into_iter()), 2);
        assert_eq!(rank((0..32).map(|bit| u32::MAX >> bit)), 32);
    }

    #[test]
    fn the_ports_of_the_verification_key_reach_every_entry_of_small_and_large_tables() {
        for table_bits in [7, 9, 11] {
            for field in fields(
                &Key::VERIFICATION,
                HashFields::FourTuple,
                table_bits,
                Transform::Plain,
            ) {
                if field.field.ends_with("port") {
                    assert_eq!(field.rank, table_bits as usize, "{field:?}");
                }
            }
        }
    }

    #[test]
    fn xored_ends_cancel_a_key_that_repeats_and_others_lose_half() {
        let repeating = Key::from_bytes(&[0x6d, 0x5a].repeat(20)).unwrap();
        let rank = |key: &Key, transform| hash_rank(key, HashFields::FourTuple, transform);
        assert_eq!(rank(&repeating, Transform::SymmetricXor), 0);
        assert_eq!(rank(&repeating, Transform::SymmetricSort), 16);
        assert_eq!(rank(&Key::VERIFICATION, Transform::SymmetricXor), 32);
    }
}
