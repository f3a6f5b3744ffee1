//! Keys: a prefix, and a number of any width.

use super::sizes::{Sizer, Sizes};
use corelane_proto::memcached::client::Content;

/// The longest key of the protocol.
pub(super) const LONGEST_KEY: usize = 250;

/// Digits of the largest number.
const DIGITS: usize = 20;

static ZEROS: [u8; LONGEST_KEY] = [b'0'; LONGEST_KEY];

/// How numbers become keys.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: Box<[u8]>,
    sizes: Sizer,
}

/// The key of a number, to be written.
#[derive(Clone, Copy)]
pub(super) struct Key<'a>(pub(super) &'a Keys, pub(super) u64);

impl Keys {
    /// Keys of these sizes, and at least as long as their prefix and number.
    pub(super) fn new(prefix: &str, sizes: Sizes) -> Self {
        Self {
            prefix: prefix.as_bytes().into(),
            sizes: Sizer::new(sizes, 1, LONGEST_KEY as u32),
        }
    }

    /// The zeros between the prefix of a number's key and its digits.
    fn zeros(&self, number: u64, digits: usize) -> usize {
        self.sizes.of(number).saturating_sub(self.prefix.len() + digits)
    }

    /// Whether a text is the key of a number.
    pub(super) fn is(&self, number: u64, text: &[u8]) -> bool {
        let mut buffer = [0; DIGITS];
        let digits = decimal(number, &mut buffer);
        let Some(rest) = text
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_suffix(digits))
        else {
            return false;
        };
        rest.len() == self.zeros(number, digits.len()) && *rest == ZEROS[..rest.len()]
    }
}

impl Content for Key<'_> {
    fn length(&self) -> usize {
        let digits = decimal(self.1, &mut [0; DIGITS]).len();
        self.0.prefix.len() + self.0.zeros(self.1, digits) + digits
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Self(keys, number) = *self;
        let mut buffer = [0; DIGITS];
        let digits = decimal(number, &mut buffer);
        out.extend_from_slice(&keys.prefix);
        out.extend_from_slice(&ZEROS[..keys.zeros(number, digits.len())]);
        out.extend_from_slice(digits);
    }
}

/// A number in decimal, at the end of a buffer.
fn decimal(mut number: u64, buffer: &mut [u8; DIGITS]) -> &[u8] {
    let mut first = DIGITS;
    loop {
        first -= 1;
        buffer[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(keys: &Keys, number: u64) -> String {
        let mut out = Vec::new();
        Key(keys, number).write(&mut out);
        assert_eq!(out.len(), Key(keys, number).length());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_have_their_size_and_are_recognised() {
        let keys = Keys::new("key:", Sizes::Fixed(10));
        assert_eq!(text(&keys, 0), "key:000000");
        assert_eq!(text(&keys, 1_204), "key:001204");
        assert_eq!(text(&keys, 1_234_567), "key:1234567", "longer than asked for");
        let other = [
            "key:00001204",
            "key:011204",
            "kex:001204",
            "key:001205",
            "001204",
            "key:",
            "",
        ];
        assert!(keys.is(1_204, b"key:001204"));
        assert!(other.iter().all(|other| !keys.is(1_204, other.as_bytes())));
        assert!(!keys.is(u64::MAX, b"key:001204"));
    }

    #[test]
    fn keys_of_all_sizes_differ() {
        let keys = Keys::new("", "gev:30.7984,8.20449,0.078688".parse().unwrap());
        let all: std::collections::BTreeSet<String> = (0..10_000).map(|number| text(&keys, number)).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().all(|key| (1..=LONGEST_KEY).contains(&key.len())));
    }
}
