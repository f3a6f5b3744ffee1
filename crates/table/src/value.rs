//! The values of a table: small integers.

use std::fmt;
use std::num::{NonZeroU16, ParseIntError};
use std::str::FromStr;
use thiserror::Error;

/// The value of an address or prefix: an integer from 0 to [`Value::LARGEST`], such as a rule, a class or a next hop.
///
/// Twelve bits, so that a 32-bit slot holds it together with the bits that identify an IPv4 address in its bucket.
/// `Option<Value>` has the same size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(NonZeroU16);

impl Value {
    /// Bits of a value.
    pub(crate) const BITS: u32 = 12;
    /// The largest value, 4,095.
    pub const LARGEST: u16 = (1 << Value::BITS) - 1;
    /// The value of the members of a set, 0: a set is a map whose values have no meaning.
    pub const MEMBER: Value = Value::from_low_bits(0);

    /// This integer as a value.
    ///
    /// # Errors
    /// If it is larger than [`Value::LARGEST`].
    pub const fn new(value: u16) -> Result<Value, ValueError> {
        if value > Value::LARGEST {
            return Err(ValueError::TooLarge { value: value as u64 });
        }
        Ok(Value::from_low_bits(value as u32))
    }

    /// The value of a parsed text.
    pub(crate) fn of_integer(text: &str, read: Result<u64, ParseIntError>) -> Result<Value, ValueError> {
        let value = read.map_err(|_| ValueError::NoInteger {
            text: text.to_owned(),
        })?;
        u16::try_from(value)
            .map_err(|_| ValueError::TooLarge { value })
            .and_then(Value::new)
    }

    /// The integer.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get() - 1
    }

    /// The value in the low bits of `bits`, whatever is above them.
    #[inline(always)]
    pub(crate) const fn from_low_bits(bits: u32) -> Value {
        match NonZeroU16::new((bits as u16 & Value::LARGEST) + 1) {
            Some(stored) => Value(stored),
            None => unreachable!(),
        }
    }

    /// The value whose integer plus one is `stored`; none for 0. The two have the same bits, so this is free.
    #[inline(always)]
    pub(crate) fn from_successor(stored: u16) -> Option<Value> {
        NonZeroU16::new(stored).map(Value)
    }
}

impl Default for Value {
    /// [`Value::MEMBER`].
    fn default() -> Value {
        Value::MEMBER
    }
}

/// An integer or a text is not a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Too large.
    #[error("{value} is not a table value: give an integer from 0 to {}", Value::LARGEST)]
    TooLarge {
        /// The integer.
        value: u64,
    },
    /// No integer.
    #[error("{text:?} is not a table value: give an integer from 0 to {}", Value::LARGEST)]
    NoInteger {
        /// The text.
        text: String,
    },
}

impl FromStr for Value {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Value, ValueError> {
        Value::of_integer(text, text.parse())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(formatter)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Value({})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_reach_from_zero_to_4095_and_cost_an_option_nothing() {
        assert_eq!(Value::new(0).unwrap(), Value::MEMBER);
        assert_eq!(Value::new(4_095).unwrap().get(), 4_095);
        assert_eq!(Value::new(4_096), Err(ValueError::TooLarge { value: 4_096 }));
        assert_eq!(size_of::<Option<Value>>(), 2);
        assert_eq!("17".parse::<Value>().unwrap().get(), 17);
        assert!("-1".parse::<Value>().is_err() && "70000".parse::<Value>().is_err());
    }
}
