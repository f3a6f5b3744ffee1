//! Values of a scenario, written as on the command line: `10ms`, `64KiB`, `5k`, `1%`, `200-399`; plain numbers where no unit
//! is needed.

use corelane_measure::quantity;
use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period(f64);

/// A number of bytes, more than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(u64);

/// A number, more than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(u64);

/// So many a second, more than 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(f64);

/// A share of 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

/// Ranges of statuses: first and last of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(pub Vec<(u16, u16)>);

impl Period {
    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0
    }
}

impl Bytes {
    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Number {
    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// A second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.0
    }
}

impl Share {
    /// 0 to 1.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![(200, 399)])
    }
}

impl Statuses {
    /// Reads `200,204,300-399`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (200 <= first && first <= last && last <= 999).then_some((first, last))
        };
        text.split(',').map(range).collect::<Option<Vec<_>>>().map(Self)
    }
}

/// What was written: text, or a number.
enum Written {
    Text(String),
    Number(f64),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Written;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text with a unit, or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written::Text(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Written, E> {
                Ok(Written::Number(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Written, E> {
                Ok(Written::Number(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Written, E> {
                Ok(Written::Number(number))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Reads text by `text`, and numbers by `number`; neither giving a value is refused with what would.
fn read<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    text: impl FnOnce(&str) -> Option<T>,
    number: impl FnOnce(f64) -> Option<T>,
) -> Result<T, D::Error> {
    let (value, shown) = match Written::deserialize(deserializer)? {
        Written::Text(written) => (text(&written), written),
        Written::Number(written) => (number(written), written.to_string()),
    };
    value.ok_or_else(|| de::Error::custom(format!("'{shown}' is not {expected}")))
}

fn whole(number: f64) -> Option<u64> {
    (number >= 1.0 && number.fract() == 0.0 && number <= u64::MAX as f64).then_some(number as u64)
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = |text: &str| {
            quantity::parse_duration(text)
                .ok()
                .map(|time| Self(time.as_secs_f64()))
        };
        read(deserializer, "a time such as 10ms", text, |_| None)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = |text: &str| {
            quantity::parse_size(text)
                .ok()
                .filter(|bytes| *bytes > 0)
                .map(Self)
        };
        read(deserializer, "a size such as 64KiB", text, |number| {
            whole(number).map(Self)
        })
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = |text: &str| {
            quantity::parse_count(text)
                .ok()
                .filter(|number| *number > 0)
                .map(Self)
        };
        read(deserializer, "a number such as 10k", text, |number| {
            whole(number).map(Self)
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let positive = |rate: f64| (rate > 0.0 && rate.is_finite()).then_some(Self(rate));
        let text = |text: &str| quantity::parse_rate(text).ok().and_then(positive);
        read(deserializer, "a rate such as 5k", text, positive)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = |share: f64| (0.0..=1.0).contains(&share).then_some(Self(share));
        let text = |text: &str| {
            let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
            share(percent / 100.0)
        };
        read(deserializer, "a share such as 0.01 or 1%", text, share)
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = |number: f64| Self::parse(&number.to_string());
        read(
            deserializer,
            "a list of statuses such as 200,204,300-399",
            Self::parse,
            number,
        )
    }
}
