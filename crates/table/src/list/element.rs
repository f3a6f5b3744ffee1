//! Parses one element of a list (an address, a prefix or a range) into prefixes.

use super::error::{BadReason, utf8};
use crate::address::{Address, Prefix, PrefixError};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpPrefix {
    /// Of IPv4.
    V4(Prefix<Ipv4Addr>),
    /// Of IPv6.
    V6(Prefix<Ipv6Addr>),
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpPrefix::V4(prefix) => prefix.fmt(formatter),
            IpPrefix::V6(prefix) => prefix.fmt(formatter),
        }
    }
}

impl FromStr for IpPrefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<IpPrefix, PrefixError> {
        if text.contains(':') {
            text.parse().map(IpPrefix::V6)
        } else {
            text.parse().map(IpPrefix::V4)
        }
    }
}

impl From<Prefix<Ipv4Addr>> for IpPrefix {
    fn from(prefix: Prefix<Ipv4Addr>) -> IpPrefix {
        IpPrefix::V4(prefix)
    }
}

impl From<Prefix<Ipv6Addr>> for IpPrefix {
    fn from(prefix: Prefix<Ipv6Addr>) -> IpPrefix {
        IpPrefix::V6(prefix)
    }
}

/// An address, a prefix, or a range of addresses, first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Prefix(IpPrefix),
    RangeV4(Ipv4Addr, Ipv4Addr),
    RangeV6(Ipv6Addr, Ipv6Addr),
}

impl Element {
    /// Parses a text that is one element.
    pub(super) fn parse(text: &[u8]) -> Result<Element, BadReason> {
        if let Some((element, used)) = ipv4_element(text)
            && used == text.len()
        {
            return Ok(element);
        }
        let text = utf8(text)?;
        if let Some((first, last)) = text.split_once('-') {
            return range(first.trim_end(), last.trim_start());
        }
        match text.parse() {
            Ok(prefix) => Ok(Element::Prefix(prefix)),
            Err(PrefixError::Length { longest, .. }) => Err(BadReason::Length { longest }),
            Err(PrefixError::Text { .. }) if text.contains(',') => Err(BadReason::Concatenation),
            Err(PrefixError::Text { .. }) => Err(BadReason::NotAnAddress),
        }
    }

    /// Calls `each` for the fewest prefixes that cover this element, in ascending order.
    #[inline]
    pub(super) fn for_each_prefix<E>(self, mut each: impl FnMut(IpPrefix) -> Result<(), E>) -> Result<(), E> {
        match self {
            Element::Prefix(prefix) => each(prefix),
            Element::RangeV4(first, last) => split(first, last, each),
            Element::RangeV6(first, last) => split(first, last, each),
        }
    }
}

fn range(first: &str, last: &str) -> Result<Element, BadReason> {
    match (first.parse(), last.parse()) {
        (Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last))) if first <= last => Ok(Element::RangeV4(first, last)),
        (Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last))) if first <= last => Ok(Element::RangeV6(first, last)),
        (Ok(_), Ok(_)) => Err(BadReason::Range),
        _ => Err(BadReason::NotAnAddress),
    }
}

/// Splits a range into prefixes: each is the largest that begins after the previous one.
fn split<A: Address, E>(first: A, last: A, mut each: impl FnMut(IpPrefix) -> Result<(), E>) -> Result<(), E>
where
    IpPrefix: From<Prefix<A>>,
{
    let unit = 128 - u32::from(A::BITS);
    let (mut first, last) = (first.to_high_bits() >> unit, last.to_high_bits() >> unit);
    loop {
        // The exponent of the prefix's size: limited by the alignment of the first address and by the addresses left.
        let aligned = first.trailing_zeros().min(u32::from(A::BITS));
        let left = (last - first).checked_add(1).map_or(128, u128::ilog2);
        let size = aligned.min(left);
        let address = A::from_high_bits(first.checked_shl(unit).unwrap_or(0));
        let prefix = Prefix::new(address, A::BITS - size as u8).expect("not longer than an address");
        each(IpPrefix::from(prefix))?;
        let step = 1_u128.checked_shl(size).unwrap_or(0);
        match first.checked_add(step) {
            Some(next) if step != 0 && next <= last => first = next,
            _ => return Ok(()),
        }
    }
}

/// An IPv4 address or prefix at the beginning of the text, in the form that nearly every line of a long list has, and its
/// bytes.
#[inline]
pub(super) fn ipv4_element(text: &[u8]) -> Option<(Element, usize)> {
    let (address, used) = ipv4(text)?;
    let address = Ipv4Addr::from_bits(address);
    if text.get(used) != Some(&b'/') {
        return Some((Element::Prefix(IpPrefix::V4(Prefix::host(address))), used));
    }
    let (length, digits) = number(&text[used + 1..])?;
    let prefix = Prefix::new(address, u8::try_from(length).ok()?).ok()?;
    Some((Element::Prefix(IpPrefix::V4(prefix)), used + 1 + digits))
}

#[inline]
fn ipv4(text: &[u8]) -> Option<(u32, usize)> {
    let (mut address, mut used) = (0, 0);
    for octet in 0..4 {
        if octet > 0 {
            if text.get(used) != Some(&b'.') {
                return None;
            }
            used += 1;
        }
        let (value, digits) = number(&text[used..])?;
        if value > 255 {
            return None;
        }
        address = address << 8 | value;
        used += digits;
    }
    Some((address, used))
}

/// A decimal number of up to three digits at the beginning of the text, without needless zeros (which some take for
/// octal), and its digits.
#[inline]
fn number(text: &[u8]) -> Option<(u32, usize)> {
    let digit = |index: usize| {
        text.get(index)
            .map(|byte| byte.wrapping_sub(b'0'))
            .filter(|digit| *digit < 10)
    };
    let mut value = u32::from(digit(0)?);
    let mut digits = 1;
    while digits < 4
        && let Some(digit) = digit(digits)
    {
        if value == 0 || digits == 3 {
            return None;
        }
        value = value * 10 + u32::from(digit);
        digits += 1;
    }
    Some((value, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefixes(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let element = Element::parse(text.as_bytes()).unwrap();
        element
            .for_each_prefix(|prefix| {
                found.push(prefix.to_string());
                Ok::<_, ()>(())
            })
            .unwrap();
        found
    }

    #[test]
    fn a_range_becomes_the_fewest_prefixes() {
        assert_eq!(prefixes("10.0.0.0-10.0.0.255"), ["10.0.0.0/24"]);
        assert_eq!(
            prefixes("10.0.0.1-10.0.0.6"),
            ["10.0.0.1", "10.0.0.2/31", "10.0.0.4/31", "10.0.0.6"]
        );
        assert_eq!(prefixes("0.0.0.0-255.255.255.255"), ["0.0.0.0/0"]);
        assert_eq!(
            prefixes("255.255.255.254-255.255.255.255"),
            ["255.255.255.254/31"]
        );
        assert_eq!(prefixes("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), ["::/0"]);
        assert_eq!(
            prefixes("2001:db8::1-2001:db8::2"),
            ["2001:db8::1", "2001:db8::2"]
        );
        assert_eq!(prefixes("0.0.0.0-127.255.255.255"), ["0.0.0.0/1"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let reason = |text: &str| Element::parse(text.as_bytes()).unwrap_err();
        assert_eq!(reason("10.0.0.9-10.0.0.1"), BadReason::Range);
        assert_eq!(reason("10.0.0.9-::1"), BadReason::Range);
        assert_eq!(reason("10.0.0.0/33"), BadReason::Length { longest: 32 });
        assert_eq!(reason("::/129"), BadReason::Length { longest: 128 });
        assert_eq!(reason("10.0.0.1,tcp:80"), BadReason::Concatenation);
        for text in [
            "",
            "10.0.0",
            "10.0.0.256",
            "10.0.0.01",
            "1.2.3.4.5",
            "example.org",
            "10.0.0.1/",
            "-",
            "1.2.3.4-",
        ] {
            assert_eq!(reason(text), BadReason::NotAnAddress, "{text}");
        }
        assert!(matches!(
            Element::parse(b"10.0.\xff.1"),
            Err(BadReason::Encoding(_))
        ));
    }

    proptest! {
        #[test]
        fn every_text_is_taken_as_the_standard_library_takes_it(text in "[0-9./]{0,20}") {
            let fast = ipv4_element(text.as_bytes()).filter(|(_, used)| *used == text.len());
            let slow = text.parse::<Prefix<Ipv4Addr>>();
            if let Some((element, _)) = fast {
                prop_assert_eq!(element, Element::Prefix(IpPrefix::V4(slow.unwrap())));
            } else if let Ok(prefix) = slow {
                // The standard library accepts lengths with leading zeros.
                prop_assert!(text.contains("/0"), "{} is {}", text, prefix);
            }
        }

        #[test]
        fn a_range_holds_its_addresses_and_no_others(first: u32, length in 0_u32..5_000) {
            let last = first.saturating_add(length);
            let mut next = u64::from(first);
            Element::RangeV4(first.into(), last.into()).for_each_prefix(|prefix| {
                let IpPrefix::V4(prefix) = prefix else { return Err("another family") };
                if u64::from(prefix.address().to_bits()) != next {
                    return Err("a gap");
                }
                next = u64::from(prefix.last_address().to_bits()) + 1;
                Ok(())
            }).unwrap();
            prop_assert_eq!(next, u64::from(last) + 1);
        }
    }
}
