//! Quantities as users type them: rates (`1.5M`), sizes (`64KiB`), durations (`1m30s`), counts (`10k`).
//!
//! In: one word from a command line or file. Out: the exact number in base units, or an error that names the word, what
//! is wrong with it and what would be right. Decimal fractions are kept as integers throughout, so `0.1` of anything is
//! exact or refused, never rounded.

use std::time::Duration;
use thiserror::Error;

/// A parse error: the word, the error, and the accepted forms.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct QuantityError(String);

/// A rate per second: `1.5M`, `250k`, `1.5M/s`, `0.5`. The prefixes are `k`, `M` and `G`.
///
/// # Errors
/// When the word is no number, or has another unit.
pub fn parse_rate(word: &str) -> Result<f64, QuantityError> {
    let bare = word.trim();
    let (numerator, denominator) = RATE.single(bare.strip_suffix("/s").unwrap_or(bare), bare)?;
    Ok(numerator as f64 / denominator as f64)
}

/// A whole number: `65536`, `10k`, `1.5M`. The prefixes are `k`, `M` and `G`.
///
/// # Errors
/// When the word is no number, has another unit, or is not whole.
pub fn parse_count(word: &str) -> Result<u64, QuantityError> {
    COUNT.whole(COUNT.single(word.trim(), word.trim())?, word.trim())
}

/// A size in bytes: `510`, `510B`, `64KiB`, `1.5MiB`, `2GB`. `kB`, `MB` and `GB` are decimal.
///
/// # Errors
/// When the word is no number, has another unit, or is no whole number of bytes.
pub fn parse_size(word: &str) -> Result<u64, QuantityError> {
    SIZE.whole(SIZE.single(word.trim(), word.trim())?, word.trim())
}

/// Bytes per second: a size with `/s` or without, `100kB/s`, or bits, `1Gbit/s`, `1Gb/s`.
///
/// # Errors
/// When the word is no number, has another unit, or is no whole number of bytes.
pub fn parse_byte_rate(word: &str) -> Result<u64, QuantityError> {
    let bare = word.trim();
    let bare = bare.strip_suffix("/s").unwrap_or(bare);
    match bare.strip_suffix("bit").or_else(|| bare.strip_suffix('b')) {
        Some(bits) => {
            let (numerator, denominator) = COUNT.single(bits.trim(), word)?;
            SIZE.whole((numerator, denominator * 8), word)
        }
        None => parse_size(bare),
    }
}

/// A duration: `30s`, `1.5ms`, `1m30s`. The units are `ns`, `us`, `ms`, `s`, `m` and `h`; one is always needed.
///
/// # Errors
/// When the word is no number, lacks a unit or has another, or is finer than a nanosecond.
pub fn parse_duration(word: &str) -> Result<Duration, QuantityError> {
    let word = word.trim();
    let mut rest = word;
    let mut total = 0u64;
    loop {
        let unit_at = rest
            .find(|letter: char| !is_of_number(letter))
            .unwrap_or(rest.len());
        let digit = |letter: char| letter.is_ascii_digit();
        let end = rest[unit_at..]
            .find(digit)
            .map_or(rest.len(), |length| unit_at + length);
        let (part, after) = rest.split_at(end);
        let part = DURATION.whole(DURATION.single(part, word)?, word)?;
        total = total.checked_add(part).ok_or_else(|| DURATION.too_large(word))?;
        if after.is_empty() {
            return Ok(Duration::from_nanos(total));
        }
        rest = after;
    }
}

/// A share of 1: `1%`, `0.01`.
///
/// # Errors
/// When the word is no number from 0 to 1, or to 100 before a `%`.
pub fn parse_share(word: &str) -> Result<f64, QuantityError> {
    let (number, whole) = word
        .strip_suffix('%')
        .map_or((word, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..=whole).contains(&number) => Ok(number / whole),
        _ => Err(QuantityError(format!(
            "`{word}` is no share: write one such as 1% or 0.01"
        ))),
    }
}

/// One kind of quantity: its units and the words of its errors.
struct Kind {
    what: &'static str,
    base: &'static str,
    example: &'static str,
    /// Units and what each is in base units, as offered in errors; an empty unit stands for none.
    units: &'static [(&'static str, u64)],
}

const PREFIXES: &[(&str, u64)] = &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

const RATE: Kind = Kind {
    what: "rate",
    base: "per second",
    example: "1.5M",
    units: PREFIXES,
};

const COUNT: Kind = Kind {
    what: "count",
    base: "pieces",
    example: "10k",
    units: PREFIXES,
};

const SIZE: Kind = Kind {
    what: "size",
    base: "bytes",
    example: "64KiB",
    units: &[
        ("", 1),
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ],
};

const DURATION: Kind = Kind {
    what: "duration",
    base: "nanoseconds",
    example: "30s",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};

/// Other names of units, where the quantity has the second one.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("K", "k"),
    ("k", "kB"),
    ("K", "kB"),
    ("KB", "kB"),
    ("M", "MB"),
    ("G", "GB"),
    ("Ki", "KiB"),
    ("Mi", "MiB"),
    ("Gi", "GiB"),
];

/// Digits beyond these cannot matter: 64 bits hold 20, and no fraction of a unit here needs more than 13.
const MOST_DIGITS: usize = 33;

fn is_of_number(letter: char) -> bool {
    letter.is_ascii_digit() || letter == '.' || letter == '_'
}

impl Kind {
    /// Parses all of `text` as a number and one unit: numerator and denominator of the quantity in base units. Errors
    /// quote `word`. Underscores between digits are ignored.
    fn single(&self, text: &str, word: &str) -> Result<(u128, u128), QuantityError> {
        let Self { what, example, .. } = self;
        if text.is_empty() {
            let wrong = format!("an empty {what}: write one like {example}");
            return Err(QuantityError(wrong));
        }
        let length = text
            .find(|letter: char| !is_of_number(letter))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(length);
        let digits = number.replace('_', "");
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let fraction = fraction.trim_end_matches('0');
        if whole.is_empty() || fraction.contains('.') || digits.ends_with('.') {
            let wrong = format!("`{word}` is no {what}: it must start with a number, like {example}");
            return Err(QuantityError(wrong));
        }
        let mantissa = [whole.trim_start_matches('0'), fraction].concat();
        if mantissa.len() > MOST_DIGITS {
            return Err(self.too_large(word));
        }
        let digits = mantissa.bytes().map(|digit| u128::from(digit - b'0'));
        let mantissa = digits.fold(0, |mantissa, digit| mantissa * 10 + digit);
        let numerator = mantissa.checked_mul(u128::from(self.multiplier(unit.trim(), word)?));
        let numerator = numerator.ok_or_else(|| self.too_large(word))?;
        Ok((numerator, 10u128.pow(fraction.len() as u32)))
    }

    fn multiplier(&self, unit: &str, word: &str) -> Result<u64, QuantityError> {
        let named = |unit: &str| self.units.iter().find(|(name, _)| *name == unit);
        let other = OTHER_NAMES.iter().filter(|(name, _)| *name == unit);
        let found = named(unit).or_else(|| other.copied().find_map(|(_, same)| named(same)));
        if let Some((_, multiplier)) = found {
            return Ok(*multiplier);
        }
        let names = self.units.iter().map(|(name, _)| *name);
        let known: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        let (Self { what, example, .. }, known) = (self, known.join(", "));
        Err(QuantityError(if unit.is_empty() {
            format!("`{word}` has no unit: a {what} takes one of {known}, like {example}")
        } else {
            format!("`{word}` has the unit `{unit}`, and a {what} takes one of {known}, like {example}")
        }))
    }

    fn whole(&self, quotient: (u128, u128), word: &str) -> Result<u64, QuantityError> {
        let (numerator, denominator) = quotient;
        if !numerator.is_multiple_of(denominator) {
            let base = self.base;
            let wrong = format!("`{word}` is not a whole number of {base}: give a number that is");
            return Err(QuantityError(wrong));
        }
        u64::try_from(numerator / denominator).map_err(|_| self.too_large(word))
    }

    fn too_large(&self, word: &str) -> QuantityError {
        let (Self { what, base, .. }, largest) = (self, u64::MAX);
        QuantityError(format!(
            "`{word}` is too large: the largest {what} is {largest} {base}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_take_decimal_prefixes() {
        assert_eq!(parse_rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(parse_rate("250k/s"), Ok(250_000.0));
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        assert_eq!(parse_rate(" 2 G "), Ok(2e9));
    }

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!(parse_size("510"), Ok(510));
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("1.5KiB"), Ok(1_536));
        assert_eq!(parse_size("2MB"), Ok(2_000_000));
        assert_eq!(parse_count("10_000_000_000"), Ok(10_000_000_000));
        assert_eq!([parse_size("2M"), parse_size("2K")], [Ok(2_000_000), Ok(2_000)]);
        assert_eq!([parse_size("1Mi"), parse_count("1K")], [Ok(1 << 20), Ok(1_000)]);
    }

    #[test]
    fn byte_rates_are_of_bytes_or_bits() {
        for (word, bytes) in [
            ("100kB/s", 100_000),
            ("64KiB", 65_536),
            ("1Gbit/s", 125_000_000),
            ("8Mb", 1_000_000),
        ] {
            assert_eq!(parse_byte_rate(word), Ok(bytes), "{word}");
        }
        assert!(parse_byte_rate("1bit/s").is_err() && parse_byte_rate("1Gb/h").is_err());
    }

    #[test]
    fn durations_may_be_of_several_parts() {
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1_500)));
        assert_eq!(parse_duration("0.1us"), Ok(Duration::from_nanos(100)));
    }

    #[test]
    fn shares_are_of_1_or_of_100_percent() {
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("0.01"), Ok(0.01));
        assert_eq!(parse_share("100%"), Ok(1.0));
        for word in ["", "%", "1.1", "101%", "-1%", "NaN"] {
            assert!(parse_share(word).is_err(), "{word}");
        }
    }

    #[test]
    fn errors_name_what_was_wrong() {
        let cases = [
            (parse_size("").unwrap_err(), "an empty size: write one like 64KiB"),
            (
                parse_rate("fast").unwrap_err(),
                "`fast` is no rate: it must start with a number, like 1.5M",
            ),
            (
                parse_rate("-5").unwrap_err(),
                "`-5` is no rate: it must start with a number, like 1.5M",
            ),
            (
                parse_duration("30").unwrap_err(),
                "`30` has no unit: a duration takes one of ns, us, \u{b5}s, ms, s, m, h, like 30s",
            ),
            (
                parse_size("64kb").unwrap_err(),
                "`64kb` has the unit `kb`, and a size takes one of B, KiB, MiB, GiB, kB, MB, GB, like 64KiB",
            ),
            (
                parse_size("0.3KiB").unwrap_err(),
                "`0.3KiB` is not a whole number of bytes: give a number that is",
            ),
            (
                parse_size("99999999999GiB").unwrap_err(),
                "`99999999999GiB` is too large: the largest size is 18446744073709551615 bytes",
            ),
            (
                parse_count("1.2.3").unwrap_err(),
                "`1.2.3` is no count: it must start with a number, like 10k",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_come_back_exactly(number in any::<u64>()) {
            prop_assert_eq!(parse_count(&number.to_string()), Ok(number));
            prop_assert_eq!(parse_size(&format!("{number}B")), Ok(number));
            prop_assert_eq!(parse_duration(&format!("{number}ns")), Ok(Duration::from_nanos(number)));
        }

        #[test]
        fn no_word_panics(word in "\\PC*", digits in "[0-9._]{0,40}[a-zA-Zµ/]{0,4}[0-9.]{0,4}") {
            for word in [word, digits] {
                let _ = parse_rate(&word);
                let _ = parse_size(&word);
                let _ = parse_count(&word);
                let _ = parse_duration(&word);
                let _ = parse_share(&word);
            }
        }
    }
}
