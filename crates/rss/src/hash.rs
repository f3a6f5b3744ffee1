//! Hashes and their types.

use crate::error::InputError;
use crate::fields::HashFields;
use crate::tuple::Tuple;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The protocol of a packet, as far as the hash type depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Anything else, and every fragment: no ports to hash.
    Other,
}

/// The type of a hash, with the values of NDIS (`NDIS_HASH_*` in `ntddndis.h`; Microsoft, "RSS Hashing Types").
///
/// The types ending in `_EX` use the address of a home address option as the source, and that of a routing header type
/// 2 as the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HashType(NonZeroU32);

/// Every type, its name and its NDIS value.
const TYPES: [(HashType, &str); 9] = [
    (HashType::IPV4, "IPV4"),
    (HashType::TCP_IPV4, "TCP_IPV4"),
    (HashType::IPV6, "IPV6"),
    (HashType::IPV6_EX, "IPV6_EX"),
    (HashType::TCP_IPV6, "TCP_IPV6"),
    (HashType::TCP_IPV6_EX, "TCP_IPV6_EX"),
    (HashType::UDP_IPV4, "UDP_IPV4"),
    (HashType::UDP_IPV6, "UDP_IPV6"),
    (HashType::UDP_IPV6_EX, "UDP_IPV6_EX"),
];

impl HashType {
    /// IPv4 addresses.
    pub const IPV4: HashType = HashType::bit(0x100);
    /// IPv4 addresses and TCP ports.
    pub const TCP_IPV4: HashType = HashType::bit(0x200);
    /// IPv6 addresses.
    pub const IPV6: HashType = HashType::bit(0x400);
    /// IPv6 addresses of the extension headers.
    pub const IPV6_EX: HashType = HashType::bit(0x800);
    /// IPv6 addresses and TCP ports.
    pub const TCP_IPV6: HashType = HashType::bit(0x1000);
    /// IPv6 addresses of the extension headers and TCP ports.
    pub const TCP_IPV6_EX: HashType = HashType::bit(0x2000);
    /// IPv4 addresses and UDP ports.
    pub const UDP_IPV4: HashType = HashType::bit(0x4000);
    /// IPv6 addresses and UDP ports.
    pub const UDP_IPV6: HashType = HashType::bit(0x8000);
    /// IPv6 addresses of the extension headers and UDP ports.
    pub const UDP_IPV6_EX: HashType = HashType::bit(0x1_0000);

    /// The type of a hash over these fields of such a packet. Protocols other than TCP and UDP hash as a 2-tuple.
    #[must_use]
    pub fn of(tuple: &Tuple, fields: HashFields, protocol: Protocol) -> HashType {
        match (tuple, fields, protocol) {
            (Tuple::V4 { .. }, HashFields::FourTuple, Protocol::Tcp) => HashType::TCP_IPV4,
            (Tuple::V4 { .. }, HashFields::FourTuple, Protocol::Udp) => HashType::UDP_IPV4,
            (Tuple::V6 { .. }, HashFields::FourTuple, Protocol::Tcp) => HashType::TCP_IPV6,
            (Tuple::V6 { .. }, HashFields::FourTuple, Protocol::Udp) => HashType::UDP_IPV6,
            (Tuple::V4 { .. }, _, _) => HashType::IPV4,
            (Tuple::V6 { .. }, _, _) => HashType::IPV6,
        }
    }

    /// The type with this NDIS value, if any.
    #[must_use]
    pub fn from_ndis(value: u32) -> Option<HashType> {
        let (hash_type, _) = TYPES
            .into_iter()
            .find(|(hash_type, _)| hash_type.ndis() == value)?;
        Some(hash_type)
    }

    /// The NDIS value, one bit.
    #[must_use]
    pub fn ndis(self) -> u32 {
        self.0.get()
    }

    const fn bit(value: u32) -> HashType {
        HashType(NonZeroU32::new(value).expect("a type is a bit"))
    }

    /// The NDIS name without its prefix, `UDP_IPV4` for instance.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = TYPES.into_iter().find(|(hash_type, _)| *hash_type == self);
        named.expect("every constant of HashType stands in TYPES").1
    }

    /// The fields that a hash of this type covers.
    #[must_use]
    pub fn fields(self) -> HashFields {
        match self {
            HashType::IPV4 | HashType::IPV6 | HashType::IPV6_EX => HashFields::TwoTuple,
            _ => HashFields::FourTuple,
        }
    }
}

impl fmt::Display for HashType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for HashType {
    type Err = InputError;

    fn from_str(text: &str) -> Result<HashType, InputError> {
        let found = TYPES.into_iter().find(|(_, name)| *name == text);
        found
            .map(|(hash_type, _)| hash_type)
            .ok_or_else(|| InputError::unknown(text, "a hash type such as IPV4, TCP_IPV6 or UDP_IPV6_EX"))
    }
}

/// A hash and its type; hashes of different types are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash {
    /// The 32 bits; the first bit of the Toeplitz sum is the most significant.
    pub value: u32,
    /// Its type.
    pub hash_type: HashType,
}

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0x{:08x}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_type_is_one_ndis_bit_and_reads_back_from_its_name_and_value() {
        for (at, (hash_type, name)) in TYPES.into_iter().enumerate() {
            assert_eq!(hash_type.ndis(), 0x100 << at, "{name}");
            assert_eq!(name.parse(), Ok(hash_type));
            assert_eq!(HashType::from_ndis(hash_type.ndis()), Some(hash_type));
            assert_eq!(hash_type.name(), name);
        }
        assert_eq!(HashType::from_ndis(0x300), None);
        assert!("UDP".parse::<HashType>().is_err());
    }

    #[test]
    fn only_tcp_and_udp_have_a_four_tuple() {
        let v4 = Tuple::new("1.2.3.4:5".parse().unwrap(), "6.7.8.9:10".parse().unwrap()).unwrap();
        let v6 = Tuple::new("[::1]:5".parse().unwrap(), "[::2]:10".parse().unwrap()).unwrap();
        use HashFields::{FourTuple, TwoTuple};
        use Protocol::{Other, Tcp, Udp};
        let expected = [
            (FourTuple, Tcp, HashType::TCP_IPV4, HashType::TCP_IPV6),
            (FourTuple, Udp, HashType::UDP_IPV4, HashType::UDP_IPV6),
            (FourTuple, Other, HashType::IPV4, HashType::IPV6),
            (TwoTuple, Tcp, HashType::IPV4, HashType::IPV6),
            (TwoTuple, Udp, HashType::IPV4, HashType::IPV6),
            (TwoTuple, Other, HashType::IPV4, HashType::IPV6),
        ];
        for (fields, protocol, type_v4, type_v6) in expected {
            assert_eq!(HashType::of(&v4, fields, protocol), type_v4);
            assert_eq!(HashType::of(&v6, fields, protocol), type_v6);
        }
    }

    #[test]
    fn a_hash_prints_all_eight_digits() {
        assert_eq!(
            Hash {
                value: 0xdc9_d681,
                hash_type: HashType::IPV4
            }
            .to_string(),
            "0x0dc9d681"
        );
    }
}
