//! Keys of the Toeplitz hash, from hexadecimal text or raw bytes, long enough for every tuple.

use crate::error::InputError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A Toeplitz key of 40 to 64 bytes, most significant bit first.
///
/// Written and read as hexadecimal; a `:` between bytes is allowed when reading, as `ethtool -x` prints it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Bytes past `length` are zero.
    bytes: [u8; Key::MAXIMUM],
    length: u8,
}

impl Key {
    /// Bytes of the shortest key: an IPv6 4-tuple has 36, and the last bit of input needs a window of 32 more bits.
    pub const MINIMUM: usize = 40;

    /// Bytes of the longest key. Most devices have 40, some 52; the rest is reserve.
    pub const MAXIMUM: usize = 64;

    /// The key of the RSS verification suite (Microsoft, "Verifying the RSS Hash Calculation"), the default of FreeBSD
    /// and many drivers.
    pub const VERIFICATION: Key = Key {
        bytes: [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0,
        ],
        length: 40,
    };

    /// Keys with a name: of Intel's drivers (the verification suite's), of mlx5 and of i40e in DPDK (`dpdk-rss-flows.py` has
    /// these), and the fixed one of older ENA devices ("ena-toeplitz" of amzn-ec2-ena-utilities). Those devices also sort the
    /// ends of a flow, start from ones, and report the lower half of the hash twice.
    pub const NAMED: [(&str, &str); 4] = [
        (
            "intel",
            "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa",
        ),
        (
            "mlx",
            "2cc681d15bdbf4f7fca28319db1a3e946b9e38d92c9c03d1ad9944a7d9563d59063c25f3fc1fdc2a",
        ),
        (
            "i40e",
            "4439796bb54c5023b675ea5b124f9f30b8a2c03ddfdc4d02a08c9b334af64a4c05c6fa343958d8557d99583ae138c92e81150366",
        ),
        (
            "ena",
            "beac01fa6a42b73b8030f20c77cb2da3ae7b30b4d0ca2bcb43a38fb04167253d255b0ec26d5a56da",
        ),
    ];

    /// The key with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Key> {
        let (_, digits) = Key::NAMED.iter().find(|(known, _)| *known == name)?;
        digits.parse().ok()
    }

    /// A key of these bytes; an error unless there are 40 to 64 of them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Key, InputError> {
        if !(Key::MINIMUM..=Key::MAXIMUM).contains(&bytes.len()) {
            let (got, least, most) = (bytes.len(), Key::MINIMUM, Key::MAXIMUM);
            return Err(InputError(format!(
                "a key of {got} bytes: give {least} to {most} bytes, which is {} to {} hexadecimal digits",
                2 * least,
                2 * most
            )));
        }
        let mut padded = [0; Key::MAXIMUM];
        padded[..bytes.len()].copy_from_slice(bytes);
        Ok(Key {
            bytes: padded,
            length: bytes.len() as u8,
        })
    }

    /// A key of 40 bytes filled by `fill`; this crate has no source of randomness.
    pub fn random(fill: &mut impl FnMut(&mut [u8])) -> Key {
        let mut bytes = [0; Key::MAXIMUM];
        fill(&mut bytes[..Key::MINIMUM]);
        Key {
            bytes,
            length: Key::MINIMUM as u8,
        }
    }

    /// The key's bytes, 40 to 64 of them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The 32 key bits that an input bit at position `bit` XORs into the hash. Bits past the key's end are zero.
    #[must_use]
    pub fn window(&self, bit: usize) -> u32 {
        let byte = |at: usize| u64::from(self.bytes.get(at).copied().unwrap_or(0));
        let first = bit / 8;
        let five_bytes = (0..5).fold(0, |bits, at| bits << 8 | byte(first + at));
        (five_bytes >> (8 - bit % 8)) as u32
    }
}

impl FromStr for Key {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Key, InputError> {
        let half_byte = |position: usize| {
            InputError(format!(
                "the key has half a byte before character {position}: give two hexadecimal digits per byte"
            ))
        };
        let mut bytes = Vec::with_capacity(Key::MAXIMUM);
        let mut half: Option<u8> = None;
        for (position, found) in (1..).zip(text.chars()) {
            match (found, found.to_digit(16), half) {
                (':', _, None) => {}
                (':', _, Some(_)) => return Err(half_byte(position)),
                (_, Some(digit), None) => half = Some(digit as u8),
                (_, Some(digit), Some(high)) => {
                    bytes.push(high << 4 | digit as u8);
                    half = None;
                }
                (_, None, _) => {
                    return Err(InputError(format!(
                        "{found:?} at character {position} of the key: only hexadecimal digits, and ':' between bytes, \
                         are allowed"
                    )));
                }
            }
        }
        if half.is_some() {
            return Err(half_byte(text.chars().count() + 1));
        }
        Key::from_bytes(&bytes)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({self})")
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: &str = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";

    #[test]
    fn the_verification_key_reads_and_prints_as_published() {
        assert_eq!(Key::VERIFICATION.to_string(), SUITE);
        assert_eq!(SUITE.parse(), Ok(Key::VERIFICATION));
        let with_colons: Vec<String> = Key::VERIFICATION
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        assert_eq!(with_colons.join(":").parse(), Ok(Key::VERIFICATION));
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused_with_both_numbers() {
        for got in [0, 16, 39, 65] {
            let error = Key::from_bytes(&vec![1; got]).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(&got.to_string()) && message.contains("40 to 64"),
                "{message}"
            );
        }
        for good in [40, 52, 64] {
            assert_eq!(Key::from_bytes(&vec![1; good]).unwrap().as_bytes().len(), good);
        }
    }

    #[test]
    fn text_that_is_not_hexadecimal_is_refused_where_it_stands() {
        let spoilt = SUITE.replacen("5a", "5g", 1);
        for (text, expected) in [
            (spoilt.as_str(), "'g' at character 4 of the key: "),
            ("6d:5:a", "the key has half a byte before character 5: "),
            (&SUITE[..79], "the key has half a byte before character 80: "),
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_window_is_the_32_key_bits_from_a_position_and_zero_past_the_end() {
        assert_eq!(Key::VERIFICATION.window(0), 0x6d5a_56da);
        assert_eq!(Key::VERIFICATION.window(4), 0xd5a5_6da2);
        assert_eq!(Key::VERIFICATION.window(288), 0xbeac_01fa);
        assert_eq!(Key::VERIFICATION.window(312), 0xfa00_0000);
        assert_eq!(Key::VERIFICATION.window(10_000), 0);
    }

    #[test]
    fn a_random_key_is_what_its_source_gives() {
        let mut next = 0;
        let key = Key::random(&mut |bytes| {
            for byte in bytes {
                *byte = next;
                next += 1;
            }
        });
        assert_eq!(key.as_bytes(), (0..40).collect::<Vec<u8>>());
    }

    #[test]
    fn names_are_keys_and_no_key_in_hexadecimal() {
        for (name, digits) in Key::NAMED {
            assert_eq!(Key::named(name).unwrap().to_string(), digits, "{name}");
            assert!(name.parse::<Key>().is_err(), "{name}");
        }
        assert_eq!(Key::named("intel"), Some(Key::VERIFICATION));
        // The fixed key of ENA is the suite's, its 32-bit words in reverse order.
        let words: Vec<u8> = Key::VERIFICATION
            .as_bytes()
            .chunks(4)
            .rev()
            .flatten()
            .copied()
            .collect();
        assert_eq!(Key::named("ena").unwrap().as_bytes(), words);
        assert_eq!(Key::named("bnxt"), None);
    }
}
