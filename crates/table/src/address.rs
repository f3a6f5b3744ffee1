//! Addresses and prefixes of both families, as tables see them: strings of bits, the first bit the highest.

use crate::exact::Placing;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// An IPv4 or IPv6 address in network byte order, as in the standard library. Implemented for these two only.
pub trait Address: Placing + Copy + Ord + Hash + Debug + Display + FromStr + Send + Sync + 'static {
    /// Bits of an address: 32 or 128.
    const BITS: u8;

    /// The address as the highest bits of an integer; those below are zero.
    fn to_high_bits(self) -> u128;

    /// The address in the highest bits of `bits`; those below are ignored.
    fn from_high_bits(bits: u128) -> Self;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;

    #[inline(always)]
    fn to_high_bits(self) -> u128 {
        u128::from(self.to_bits()) << 96
    }

    #[inline(always)]
    fn from_high_bits(bits: u128) -> Ipv4Addr {
        Ipv4Addr::from_bits((bits >> 96) as u32)
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;

    #[inline(always)]
    fn to_high_bits(self) -> u128 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_high_bits(bits: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(bits)
    }
}

/// All addresses that begin with the same bits, written `10.0.0.0/8` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix<A> {
    /// Its first address: the bits after the length are zero.
    address: A,
    length: u8,
}

impl<A: Address> Prefix<A> {
    /// The prefix of `length` bits that holds `address`. Bits after the length are dropped, as `ipset` and `ip route`
    /// do: `10.1.2.3/8` is `10.0.0.0/8`.
    ///
    /// # Errors
    /// If the length is greater than the number of address bits.
    pub fn new(address: A, length: u8) -> Result<Prefix<A>, PrefixError> {
        if length > A::BITS {
            return Err(PrefixError::Length {
                length: u32::from(length),
                longest: A::BITS,
            });
        }
        let address = A::from_high_bits(address.to_high_bits() & mask(length));
        Ok(Prefix { address, length })
    }

    /// The prefix of this address alone.
    #[must_use]
    pub fn host(address: A) -> Prefix<A> {
        Prefix {
            address,
            length: A::BITS,
        }
    }

    /// Its first address.
    #[must_use]
    pub fn address(self) -> A {
        self.address
    }

    /// Its last address.
    #[must_use]
    pub fn last_address(self) -> A {
        A::from_high_bits(self.address.to_high_bits() | !mask(self.length))
    }

    /// The number of bits that its addresses share.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it is one address.
    #[must_use]
    pub fn is_host(self) -> bool {
        self.length == A::BITS
    }

    /// Whether it contains the address.
    #[must_use]
    pub fn contains(self, address: A) -> bool {
        (address.to_high_bits() ^ self.address.to_high_bits()) & mask(self.length) == 0
    }

    /// The prefix of this length that contains it; itself if it is not longer.
    #[must_use]
    pub(crate) fn shortened(self, length: u8) -> Prefix<A> {
        let length = length.min(self.length);
        let address = A::from_high_bits(self.address.to_high_bits() & mask(length));
        Prefix { address, length }
    }
}

/// The highest `length` bits, of 128 at most.
#[inline(always)]
fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// A text or a length is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// The length is greater than the number of address bits.
    #[error("/{length} is longer than an address of {longest} bits: give a length from 0 to {longest}")]
    Length {
        /// The given length.
        length: u32,
        /// The greatest valid length.
        longest: u8,
    },
    /// Not an address, or not a number after the slash.
    #[error(
        "{text:?} is not an address or a prefix: write 192.0.2.1, 192.0.2.0/24, 2001:db8::1 or 2001:db8::/32"
    )]
    Text {
        /// The text.
        text: String,
    },
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix<A>, PrefixError> {
        let wrong = || PrefixError::Text {
            text: text.to_owned(),
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse::<u32>().map_err(|_| wrong())?),
            None => (text, u32::from(A::BITS)),
        };
        let address = address.parse().map_err(|_| wrong())?;
        let length = u8::try_from(length).map_err(|_| PrefixError::Length {
            length,
            longest: A::BITS,
        })?;
        Prefix::new(address, length)
    }
}

impl<A: Address> Display for Prefix<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() {
            write!(formatter, "{}", self.address)
        } else {
            write!(formatter, "{}/{}", self.address, self.length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_drops_host_bits_and_knows_its_first_and_last_address() {
        let prefix: Prefix<Ipv4Addr> = "10.1.2.3/8".parse().unwrap();
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        assert_eq!(prefix.last_address(), Ipv4Addr::new(10, 255, 255, 255));
        assert!(prefix.contains(Ipv4Addr::new(10, 9, 9, 9)));
        assert!(!prefix.contains(Ipv4Addr::new(11, 0, 0, 0)));
        let prefix: Prefix<Ipv6Addr> = "2001:db8::1/32".parse().unwrap();
        assert_eq!(prefix.to_string(), "2001:db8::/32");
        assert!(prefix.contains("2001:db8:ffff::1".parse().unwrap()));
        assert_eq!(prefix.shortened(16).to_string(), "2001::/16");
    }

    #[test]
    fn the_shortest_and_the_longest_prefix_are_prefixes() {
        let all: Prefix<Ipv4Addr> = "1.2.3.4/0".parse().unwrap();
        assert_eq!(
            (all.address(), all.last_address()),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
        );
        let host: Prefix<Ipv6Addr> = "::1".parse().unwrap();
        assert!(host.is_host() && host.contains(Ipv6Addr::LOCALHOST));
        assert_eq!(
            (host.to_string(), host.last_address()),
            ("::1".to_owned(), Ipv6Addr::LOCALHOST)
        );
    }

    #[test]
    fn what_is_no_prefix_is_refused_by_name() {
        let parse = |text: &str| text.parse::<Prefix<Ipv4Addr>>();
        assert_eq!(
            parse("1.2.3.4/33"),
            Err(PrefixError::Length {
                length: 33,
                longest: 32
            })
        );
        assert_eq!(
            parse("1.2.3.4/300"),
            Err(PrefixError::Length {
                length: 300,
                longest: 32
            })
        );
        for text in ["", "1.2.3", "1.2.3.4/", "1.2.3.4/-1", "::1", "1.2.3.4 /8"] {
            assert!(matches!(parse(text), Err(PrefixError::Text { .. })), "{text}");
        }
    }
}
