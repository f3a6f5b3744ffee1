//! Quantities in files (TOML, JSON), for `deserialize_with`: written as on the command line, or as plain numbers if no unit is
//! required. Each also reads an `Option`.

use super::{parse_count, parse_duration, parse_rate, parse_share, parse_size};
use serde::{Deserialize, Deserializer, de};

/// The value as written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text with a unit, or a number")]
enum Written {
    Number(f64),
    Text(String),
}

/// Parses strings with `text` and numbers with `number`.
///
/// # Errors
/// If neither yields a value: what was `expected`.
pub fn text_or_number<'de, T, R: From<T>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    text: impl FnOnce(&str) -> Option<T>,
    number: impl FnOnce(f64) -> Option<T>,
) -> Result<R, D::Error> {
    let (value, shown) = match Written::deserialize(deserializer)? {
        Written::Text(written) => (text(&written), written),
        Written::Number(written) => (number(written), written.to_string()),
    };
    let wrong = || de::Error::custom(format!("'{shown}' is not {expected}"));
    value.map(R::from).ok_or_else(wrong)
}

fn whole(number: f64) -> Option<u64> {
    (number >= 1.0 && number.fract() == 0.0 && number <= u64::MAX as f64).then_some(number as u64)
}

/// A duration in seconds, which needs a unit: `10ms`.
///
/// # Errors
/// If it is none.
pub fn seconds<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| Some(parse_duration(text).ok()?.as_secs_f64());
    text_or_number(deserializer, "a time such as 10ms", text, |_| None)
}

/// A number of bytes, more than 0: `64KiB`.
///
/// # Errors
/// If it is none, or 0.
pub fn bytes<'de, R: From<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| parse_size(text).ok().filter(|bytes| *bytes > 0);
    text_or_number(deserializer, "a size such as 64KiB", text, whole)
}

/// A whole number, more than 0: `10k`.
///
/// # Errors
/// If it is none, or 0.
pub fn number<'de, R: From<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let text = |text: &str| parse_count(text).ok().filter(|number| *number > 0);
    text_or_number(deserializer, "a number such as 10k", text, whole)
}

/// A rate per second, more than 0: `5k`.
///
/// # Errors
/// If it is none, or 0.
pub fn rate<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let positive = |rate: f64| (rate > 0.0 && rate.is_finite()).then_some(rate);
    let text = |text: &str| parse_rate(text).ok().and_then(positive);
    text_or_number(deserializer, "a rate such as 5k", text, positive)
}

/// A share of 1: `0.01`, `"1%"`.
///
/// # Errors
/// If it is none.
pub fn share<'de, R: From<f64>, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    let share = |share: f64| (0.0..=1.0).contains(&share).then_some(share);
    let text = |text: &str| parse_share(text).ok().filter(|_| text.ends_with('%'));
    text_or_number(deserializer, "a share such as 0.01 or 1%", text, share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[derive(Debug, Deserialize, PartialEq)]
    struct Quantities {
        #[serde(deserialize_with = "seconds")]
        seconds: f64,
        #[serde(deserialize_with = "bytes")]
        bytes: u64,
        #[serde(deserialize_with = "number")]
        number: u64,
        #[serde(deserialize_with = "rate")]
        rate: f64,
        #[serde(default, deserialize_with = "share")]
        share: Option<f64>,
    }

    const WRITTEN: fn() -> Value =
        || json!({ "seconds": "10ms", "bytes": "64KiB", "number": "10k", "rate": "5k", "share": "1%" });

    #[test]
    fn quantities_are_texts_with_a_unit_or_numbers() {
        let mut file = WRITTEN();
        let read: Quantities = serde_json::from_value(file.clone()).unwrap();
        let quantities = Quantities {
            seconds: 0.01,
            bytes: 65_536,
            number: 10_000,
            rate: 5_000.0,
            share: Some(0.01),
        };
        assert_eq!(read, quantities);
        for (name, plain) in [
            ("bytes", json!(65_536)),
            ("number", json!(10_000)),
            ("rate", json!(5_000)),
            ("share", json!(0.01)),
        ] {
            file[name] = plain;
        }
        assert_eq!(serde_json::from_value::<Quantities>(file).unwrap(), quantities);
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_is_expected() {
        for (name, wrong, error) in [
            ("seconds", json!(10), "'10' is not a time such as 10ms"),
            ("bytes", json!(1.5), "'1.5' is not a size such as 64KiB"),
            ("number", json!("0"), "'0' is not a number such as 10k"),
            ("rate", json!(-1), "'-1' is not a rate such as 5k"),
            ("share", json!("0.01"), "'0.01' is not a share such as 0.01 or 1%"),
            ("share", json!(1.1), "'1.1' is not a share such as 0.01 or 1%"),
            ("rate", json!([1]), "a text with a unit, or a number"),
        ] {
            let mut file = WRITTEN();
            file[name] = wrong;
            let refused = serde_json::from_value::<Quantities>(file)
                .unwrap_err()
                .to_string();
            assert_eq!(refused, error, "{name}");
        }
    }
}
