//! Symmetric keys, under which both directions of a flow have the same hash: a test, and a generator.

use crate::fields::HashFields;
use crate::key::Key;
use serde::Serialize;
use std::fmt;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Family {
    /// IPv4.
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6.
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// Bits of an address.
    #[must_use]
    pub const fn address_bits(self) -> usize {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// Bits that are hashed of these fields.
    #[must_use]
    pub const fn input_bits(self, fields: HashFields) -> usize {
        match fields {
            HashFields::TwoTuple => 2 * self.address_bits(),
            HashFields::FourTuple => 2 * self.address_bits() + 32,
        }
    }

    /// Where the two ends of addresses and of ports are in the input, in bytes: the start of the source, and the length of
    /// each end; the destination follows the source.
    pub(crate) const fn ends(self) -> [(usize, usize); 2] {
        let address = self.address_bits() / 8;
        [(0, address), (2 * address, 2)]
    }

    /// The bits of the input at the place of this one in the source and in the destination.
    pub(crate) const fn both_ends(self, bit: usize) -> (usize, usize) {
        let [addresses, ports] = self.ends();
        let (start, length) = if bit < 8 * ports.0 { addresses } else { ports };
        let source = 8 * start + (bit - 8 * start) % (8 * length);
        (source, source + 8 * length)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// Whether both directions of a flow always have the same hash. Because the hash is linear, this holds exactly if every
/// source bit and the corresponding destination bit have equal windows.
#[must_use]
pub fn symmetric(key: &Key, family: Family, fields: HashFields) -> bool {
    matches(family, fields).all(|(one, other)| key.window(one) == key.window(other))
}

/// The pairs of input bits that are swapped between the two directions.
fn matches(family: Family, fields: HashFields) -> impl Iterator<Item = (usize, usize)> {
    let bits = 0..family.input_bits(fields);
    let pairs = bits.map(move |bit| (bit, family.both_ends(bit)));
    pairs.filter_map(|(bit, ends)| (bit == ends.0).then_some(ends))
}

impl Key {
    /// A key of 40 bytes, symmetric for these families and fields and otherwise filled by `fill`: key bits that must be
    /// equal are drawn once.
    ///
    /// Few bits are free: 128 for IPv6 2-tuples, 32 for IPv4 2-tuples, and hardly more than 16 for 4-tuples. There the
    /// key repeats every 16 bits, and so does the hash.
    pub fn random_symmetric(
        families: &[Family],
        fields: HashFields,
        fill: &mut impl FnMut(&mut [u8]),
    ) -> Key {
        const BITS: usize = 8 * Key::MINIMUM;
        const WINDOW: usize = 32;
        let drawn = Key::random(fill);
        // The first of the bits that a bit must equal; itself if it is free.
        let mut first: Vec<usize> = (0..BITS).collect();
        for (one, other) in families.iter().flat_map(|family| matches(*family, fields)) {
            for at in 0..WINDOW {
                let (a, b) = (root(&first, one + at), root(&first, other + at));
                first[a.max(b)] = a.min(b);
            }
        }
        let mut bytes = [0; Key::MINIMUM];
        for position in 0..BITS {
            if drawn.window(root(&first, position)) >> 31 == 1 {
                bytes[position / 8] |= 0x80 >> (position % 8);
            }
        }
        Key::from_bytes(&bytes).expect("40 bytes are a key")
    }
}

fn root(first: &[usize], mut bit: usize) -> usize {
    while first[bit] != bit {
        bit = first[bit];
    }
    bit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Toeplitz, Tuple};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    proptest! {
        #[test]
        fn a_symmetric_key_hashes_both_directions_alike(
            random in any::<[u8; 40]>(),
            (source, destination) in any::<((u128, u16), (u128, u16))>(),
        ) {
            let v4 = |(address, port): (u128, u16)| SocketAddr::from((Ipv4Addr::from(address as u32), port));
            let v6 = |(address, port): (u128, u16)| SocketAddr::from((Ipv6Addr::from(address | 1 << 127), port));
            for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
                for families in [&[Family::V4][..], &[Family::V6], &Family::ALL] {
                    let key = Key::random_symmetric(families, fields, &mut |bytes| bytes.copy_from_slice(&random));
                    let toeplitz = Toeplitz::new(&key);
                    for family in families {
                        prop_assert!(symmetric(&key, *family, fields));
                        let tuple = match family {
                            Family::V4 => Tuple::new(v4(source), v4(destination)),
                            Family::V6 => Tuple::new(v6(source), v6(destination)),
                        }.unwrap();
                        prop_assert_eq!(toeplitz.hash(&tuple, fields), toeplitz.hash(&tuple.reversed(), fields));
                    }
                }
            }
        }
    }

    #[test]
    fn as_much_is_drawn_as_the_symmetry_leaves_free() {
        let free = |families: &[Family], fields| {
            // A key drawn with one bit set has that bit and all bits that must equal it, so every free bit gives
            // another key. Windows of IPv6 addresses end at bit 286.
            let keys = (0..320_usize).map(|bit| {
                Key::random_symmetric(families, fields, &mut |bytes| {
                    bytes.fill(0);
                    bytes[bit / 8] = 0x80 >> (bit % 8);
                })
            });
            keys.take(287)
                .filter(|key| key.as_bytes().iter().any(|byte| *byte != 0))
                .count()
        };
        assert_eq!(free(&[Family::V6], HashFields::TwoTuple), 128);
        // 16, and the bits 31 and 127, which belong to the last window of an address but to no window of a port.
        assert_eq!(free(&Family::ALL, HashFields::FourTuple), 18);
    }
}
