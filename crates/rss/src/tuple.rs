//! Tuples: a pair of socket addresses, and the bytes that a network interface hashes of them.

use crate::fields::HashFields;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use thiserror::Error;

/// Source and destination of a packet, of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tuple {
    /// Between IPv4 addresses.
    V4 {
        /// The source.
        source: SocketAddrV4,
        /// The destination.
        destination: SocketAddrV4,
    },
    /// Between IPv6 addresses. Flow label and scope are not hashed.
    V6 {
        /// The source.
        source: SocketAddrV6,
        /// The destination.
        destination: SocketAddrV6,
    },
}

impl Tuple {
    /// The tuple of a packet from `source` to `destination`.
    ///
    /// An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`, as a dual-stack socket reports it) is converted to its IPv4
    /// address, because the packet on the wire carries that one. Mixed families are an error.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Result<Tuple, TupleError> {
        match (unmapped(source), unmapped(destination)) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => Ok(Tuple::V4 { source, destination }),
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => Ok(Tuple::V6 { source, destination }),
            _ => Err(TupleError(source, destination)),
        }
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        match *self {
            Tuple::V4 { source, .. } => source.into(),
            Tuple::V6 { source, .. } => source.into(),
        }
    }

    /// The destination.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        match *self {
            Tuple::V4 { destination, .. } => destination.into(),
            Tuple::V6 { destination, .. } => destination.into(),
        }
    }

    /// The tuple of the reply: source and destination swapped.
    #[must_use]
    pub fn reversed(&self) -> Tuple {
        match *self {
            Tuple::V4 { source, destination } => Tuple::V4 {
                source: destination,
                destination: source,
            },
            Tuple::V6 { source, destination } => Tuple::V6 {
                source: destination,
                destination: source,
            },
        }
    }

    /// The bytes that are hashed: both addresses and, for a 4-tuple, both ports, in network order, source first
    /// (Microsoft, "RSS Hashing Types").
    #[must_use]
    pub fn input(&self, fields: HashFields) -> HashInput {
        let mut bytes = [0; HashInput::LONGEST];
        let addresses = match *self {
            Tuple::V4 { source, destination } => {
                bytes[..12].copy_from_slice(&v4_bytes(source, destination, fields));
                8
            }
            Tuple::V6 { source, destination } => {
                bytes = v6_bytes(source, destination, fields);
                32
            }
        };
        let length = match fields {
            HashFields::TwoTuple => addresses,
            HashFields::FourTuple => addresses + 4,
        };
        HashInput { bytes, length }
    }
}

/// Source and destination address, source and destination port. The ports of a 2-tuple are zeros, which do not change
/// the hash.
///
/// Written as one piece of eight bytes and one of four, because [`Toeplitz`](crate::Toeplitz) reads the same pieces: a
/// load that spans several smaller recent stores stalls until all have left the store buffer.
#[inline]
pub(crate) fn v4_bytes(source: SocketAddrV4, destination: SocketAddrV4, fields: HashFields) -> [u8; 12] {
    let [low, high] = [source, destination].map(|end| u64::from(u32::from_le_bytes(end.ip().octets())));
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&(low | high << 32).to_le_bytes());
    bytes[8..].copy_from_slice(&ports(source.port(), destination.port(), fields));
    bytes
}

/// Like [`v4_bytes`], in pieces of 16, 16 and 4 bytes.
#[inline]
pub(crate) fn v6_bytes(source: SocketAddrV6, destination: SocketAddrV6, fields: HashFields) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[..16].copy_from_slice(&source.ip().octets());
    bytes[16..32].copy_from_slice(&destination.ip().octets());
    bytes[32..].copy_from_slice(&ports(source.port(), destination.port(), fields));
    bytes
}

/// Both ports in one piece; zeros for a 2-tuple.
#[inline]
pub(crate) fn ports(source: u16, destination: u16, fields: HashFields) -> [u8; 4] {
    match fields {
        HashFields::TwoTuple => [0; 4],
        HashFields::FourTuple => (u32::from(source) << 16 | u32::from(destination)).to_be_bytes(),
    }
}

/// Whether two addresses are the same on the wire: an IPv4-mapped IPv6 address is its IPv4 address.
#[must_use]
pub fn same_address(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// The IPv4 address and port that a mapped IPv6 address stands for; any other address unchanged.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match (address.ip().to_canonical(), address) {
        (IpAddr::V4(ip), SocketAddr::V6(mapped)) => SocketAddrV4::new(ip, mapped.port()).into(),
        _ => address,
    }
}

/// The bytes of a tuple that are hashed: 8 or 12 for IPv4, 32 or 36 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashInput {
    /// Bytes past `length` are ignored.
    bytes: [u8; HashInput::LONGEST],
    length: usize,
}

impl HashInput {
    /// Bytes of the longest input, the IPv6 4-tuple.
    pub const LONGEST: usize = 36;

    /// The bytes, in network order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Error of [`Tuple::new`]: one end is IPv4, the other IPv6.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} and {1} are of different address families: give two IPv4 or two IPv6 addresses")]
pub struct TupleError(SocketAddr, SocketAddr);

impl fmt::Display for Tuple {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} -> {}", self.source(), self.destination())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(source: &str, destination: &str) -> Result<Tuple, TupleError> {
        Tuple::new(source.parse().unwrap(), destination.parse().unwrap())
    }

    #[test]
    fn input_is_addresses_then_ports_in_network_order_source_first() {
        let tuple = tuple("1.2.3.4:258", "5.6.7.8:772").unwrap();
        let four = tuple.input(HashFields::FourTuple);
        assert_eq!(four.as_bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]);
        let two = tuple.input(HashFields::TwoTuple);
        assert_eq!(two.as_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn an_ipv6_input_has_32_bytes_of_addresses_and_4_of_ports() {
        let tuple = tuple("[2001:db8::1]:1", "[2001:db8::2]:2").unwrap();
        let input = tuple.input(HashFields::FourTuple);
        assert_eq!(input.as_bytes().len(), 36);
        assert_eq!(input.as_bytes()[15], 1);
        assert_eq!(input.as_bytes()[31..], [2, 0, 1, 0, 2]);
        assert_eq!(
            tuple.input(HashFields::TwoTuple).as_bytes(),
            &input.as_bytes()[..32]
        );
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address_it_maps() {
        assert_eq!(
            tuple("[::ffff:10.0.0.1]:5", "10.0.0.2:6"),
            tuple("10.0.0.1:5", "10.0.0.2:6")
        );
    }

    #[test]
    fn mixed_families_are_refused() {
        let error = tuple("10.0.0.1:5", "[::1]:6").unwrap_err().to_string();
        assert!(
            error.contains("10.0.0.1:5") && error.contains("[::1]:6"),
            "{error}"
        );
    }

    #[test]
    fn a_tuple_reversed_twice_is_itself() {
        for (source, destination) in [("1.2.3.4:5", "6.7.8.9:10"), ("[::1]:5", "[::2]:6")] {
            let tuple = tuple(source, destination).unwrap();
            assert_eq!(tuple.reversed().source(), tuple.destination());
            assert_eq!(tuple.reversed().reversed(), tuple);
        }
    }
}
