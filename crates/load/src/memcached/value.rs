//! Values: recomputable from key, run and version, so that whoever reads one knows who wrote it, and whether a byte is wrong.
//!
//! A value of 16 bytes or more begins with the number of its key, its run and its version (little endian); words follow that
//! depend on all three. A shorter value is the beginning of two such words.

use super::mixing::mix;
use corelane_proto::memcached::client::Content;

/// Number (8 bytes), run and version (4 each).
pub(super) const HEAD: usize = 16;

/// 2^64 divided by the golden ratio: what each word of a value has more than the one before, so that no two are equal.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const LEAST_FLAGS: u32 = 10_000;

/// Who wrote a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// The number of its key.
    pub(super) number: u64,
    /// The run that wrote it.
    pub(super) run: u32,
    /// Which of the values that this run wrote for the key.
    pub(super) version: u32,
}

/// A value to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) origin: Origin,
    pub(super) length: usize,
}

impl Origin {
    /// What all that this origin wrote depends on.
    pub(super) fn seed(self) -> u64 {
        let written = (u64::from(self.run) << 32) | u64::from(self.version);
        mix(mix(self.number.wrapping_add(STEP)) ^ written)
    }

    /// The client's flags: of 16 bits, the least that servers keep, and five digits, so that answers with values of one size have one size.
    pub(super) fn flags(self) -> u32 {
        LEAST_FLAGS + (self.seed() >> 48) as u32 % (u32::from(u16::MAX) + 1 - LEAST_FLAGS)
    }

    fn head(self) -> [u8; HEAD] {
        let number = u128::from(self.number);
        (number | (u128::from(self.run) << 64) | (u128::from(self.version) << 96)).to_le_bytes()
    }

    /// The origin that a value of at least [`HEAD`] bytes names.
    pub(super) fn named(value: &[u8]) -> Option<Self> {
        let head = u128::from_le_bytes(*value.first_chunk::<HEAD>()?);
        Some(Self {
            number: head as u64,
            run: (head >> 64) as u32,
            version: (head >> 96) as u32,
        })
    }

    /// Whether these bytes, of any length, are a value of this origin.
    pub(super) fn wrote(self, value: &[u8]) -> bool {
        let rest = match value.split_first_chunk::<HEAD>() {
            Some((head, rest)) if *head == self.head() => rest,
            Some(_) => return false,
            None => value,
        };
        let (words, tail) = rest.as_chunks::<8>();
        let mut expected = self.seed();
        let mut differing = 0;
        for word in words {
            differing |= u64::from_le_bytes(*word) ^ expected;
            expected = expected.wrapping_add(STEP);
        }
        differing == 0 && *tail == expected.to_le_bytes()[..tail.len()]
    }
}

impl Content for Value {
    fn length(&self) -> usize {
        self.length
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut left = self.length;
        if let Some(rest) = left.checked_sub(HEAD) {
            out.extend_from_slice(&self.origin.head());
            left = rest;
        }
        let mut word = self.origin.seed();
        out.reserve(left);
        for _ in 0..left / 8 {
            out.extend_from_slice(&word.to_le_bytes());
            word = word.wrapping_add(STEP);
        }
        out.extend_from_slice(&word.to_le_bytes()[..left % 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin {
        number: 77,
        run: 5,
        version: 9,
    };

    fn value(origin: Origin, length: usize) -> Vec<u8> {
        let (mut out, value) = (Vec::new(), Value { origin, length });
        value.write(&mut out);
        assert_eq!(out.len(), length);
        out
    }

    #[test]
    fn a_value_of_any_length_is_recognised_and_every_wrong_byte_too() {
        for length in (0..70).chain([4_099]) {
            let mut bytes = value(ORIGIN, length);
            assert!(ORIGIN.wrote(&bytes), "{length}");
            assert_eq!(Origin::named(&bytes), (length >= HEAD).then_some(ORIGIN));
            for place in 0..length {
                bytes[place] ^= 0x10;
                assert!(!ORIGIN.wrote(&bytes), "{length}: byte {place}");
                bytes[place] ^= 0x10;
            }
        }
    }

    #[test]
    fn values_of_other_keys_runs_and_versions_differ_and_so_do_their_flags() {
        let others = [
            Origin { number: 78, ..ORIGIN },
            Origin { run: 6, ..ORIGIN },
            Origin {
                version: 10,
                ..ORIGIN
            },
        ];
        for other in others {
            assert!(!ORIGIN.wrote(&value(other, 100)) && !ORIGIN.wrote(&value(other, 8)));
            assert_ne!(ORIGIN.flags(), other.flags());
        }
        assert!(ORIGIN.flags() < 1 << 16);
    }
}
