//! Transforms: how some devices mix the two ends of a flow before they hash it, so that both directions have one hash.

use crate::audit::Family;
use crate::error::InputError;
use crate::tuple::{HashInput, Tuple};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

/// How the two ends of a flow are mixed before hashing: addresses with addresses, ports with ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transform {
    /// Not mixed.
    #[default]
    Plain,
    /// Both ends replaced by their XOR (`symmetric-xor` of ethtool).
    SymmetricXor,
    /// The source replaced by the OR of both ends, the destination by their XOR (`symmetric-or-xor`).
    SymmetricOrXor,
    /// The smaller end first (`RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT` of DPDK, older ENA devices).
    SymmetricSort,
}

impl Transform {
    /// All transforms.
    pub const ALL: [Transform; 4] = [
        Transform::Plain,
        Transform::SymmetricXor,
        Transform::SymmetricOrXor,
        Transform::SymmetricSort,
    ];

    /// Mixes two ends of the same kind.
    fn mixed<T>(self, source: T, destination: T) -> (T, T)
    where
        T: Copy + Ord + std::ops::BitXor<Output = T> + std::ops::BitOr<Output = T>,
    {
        match self {
            Transform::Plain => (source, destination),
            Transform::SymmetricXor => (source ^ destination, source ^ destination),
            Transform::SymmetricOrXor => (source | destination, source ^ destination),
            Transform::SymmetricSort => (source.min(destination), source.max(destination)),
        }
    }

    /// The tuple that a device hashes instead of this one.
    #[must_use]
    pub fn of_tuple(self, tuple: &Tuple) -> Tuple {
        let ports = self.mixed(tuple.source().port(), tuple.destination().port());
        match tuple {
            Tuple::V4 { source, destination } => {
                let ends = self.mixed(source.ip().to_bits(), destination.ip().to_bits());
                Tuple::V4 {
                    source: SocketAddrV4::new(ends.0.into(), ports.0),
                    destination: SocketAddrV4::new(ends.1.into(), ports.1),
                }
            }
            Tuple::V6 { source, destination } => {
                let ends = self.mixed(source.ip().to_bits(), destination.ip().to_bits());
                Tuple::V6 {
                    source: SocketAddrV6::new(ends.0.into(), ports.0, 0, 0),
                    destination: SocketAddrV6::new(ends.1.into(), ports.1, 0, 0),
                }
            }
        }
    }

    /// The bytes of a tuple with both ends mixed; those past its end stay zero.
    #[must_use]
    pub fn apply(self, input: &[u8; HashInput::LONGEST], family: Family) -> [u8; HashInput::LONGEST] {
        let mut bytes = *input;
        for (start, length) in family.ends() {
            let (source, destination) = bytes[start..start + 2 * length].split_at_mut(length);
            if self == Transform::SymmetricSort {
                if source > destination {
                    source.swap_with_slice(destination);
                }
                continue;
            }
            for (source, destination) in source.iter_mut().zip(destination) {
                (*source, *destination) = self.mixed(*source, *destination);
            }
        }
        bytes
    }

    /// The hash input with both ends mixed: 8, 12, 32 or 36 bytes, as a device lays them out.
    ///
    /// # Panics
    /// If `input` is longer.
    #[must_use]
    pub fn of_input(self, input: &[u8]) -> [u8; HashInput::LONGEST] {
        let mut bytes = [0; HashInput::LONGEST];
        bytes[..input.len()].copy_from_slice(input);
        let family = if input.len() < 32 { Family::V4 } else { Family::V6 };
        self.apply(&bytes, family)
    }
}

/// The name, as ethtool and documents have it.
impl fmt::Display for Transform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

impl FromStr for Transform {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Transform, InputError> {
        let named = Transform::ALL
            .into_iter()
            .find(|transform| transform.to_string() == text);
        named.ok_or_else(|| {
            InputError::unknown(text, "plain, symmetric-xor, symmetric-or-xor or symmetric-sort")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFields;

    #[test]
    fn tuples_are_mixed_as_their_bytes_are_and_both_directions_alike() {
        for (source, destination) in [
            ("10.1.2.3:4000", "10.0.9.8:53"),
            ("[2001:db8::7]:53", "[2001:db8::5:1]:4000"),
        ] {
            let tuple = Tuple::new(source.parse().unwrap(), destination.parse().unwrap()).unwrap();
            for transform in Transform::ALL {
                for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
                    let of_bytes = transform.of_input(tuple.input(fields).as_bytes());
                    let of_tuple = transform.of_tuple(&tuple).input(fields);
                    assert_eq!(
                        of_tuple.as_bytes(),
                        &of_bytes[..of_tuple.as_bytes().len()],
                        "{transform}"
                    );
                    let reversed = transform.of_tuple(&tuple.reversed()).input(fields);
                    assert_eq!(reversed == of_tuple, transform != Transform::Plain, "{transform}");
                }
            }
        }
    }

    #[test]
    fn ports_are_sorted_apart_from_addresses() {
        let tuple = Tuple::new("10.0.0.2:80".parse().unwrap(), "10.0.0.1:4000".parse().unwrap()).unwrap();
        let sorted = Transform::SymmetricSort.of_tuple(&tuple);
        assert_eq!(sorted.to_string(), "10.0.0.1:80 -> 10.0.0.2:4000");
    }
}
