//! Formatting and parsing of quantities.
//!
//! In: numbers in base units (per second, bytes, nanoseconds, shares of 1). Out: short text of three significant
//! digits, with decimal prefixes for rates (`1.72 M/s`) and binary ones for sizes (`64 KiB`). [`parse`] is the inverse,
//! for user input; [`read`] is for files.
//!
//! A number that does not exist is [`MISSING`], never 0; a share of not quite 1 is never shown as 100 %.

mod parse;
pub mod read;

pub use parse::{
    QuantityError, parse_byte_rate, parse_count, parse_duration, parse_rate, parse_share, parse_size,
};

/// The text of a missing number.
pub const MISSING: &str = "-";

/// Decimal prefixes of rates and counts, in steps of a thousand.
const DECIMAL_PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];

/// Binary prefixes of sizes, in steps of 1024 (IEC 80000-13).
const BINARY_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A rate per second: `rate(1_720_000.0)` is `1.72 M/s`, `rate(850.0)` is `850/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    finite(per_second, |rate| format!("{}/s", metric(rate)))
}

/// A rate of named events: `rate_of(14_900.0, "requests")` is `14.9 k requests/s`.
#[must_use]
pub fn rate_of(per_second: f64, events: &str) -> String {
    finite(per_second, |rate| format!("{} {events}/s", metric(rate)))
}

/// A number with a decimal prefix and three significant digits: `metric(1_720_000.0)` is `1.72 M`.
#[must_use]
pub fn metric(value: f64) -> String {
    finite(value, |value| {
        match scale_down(value, 1000.0, &DECIMAL_PREFIXES) {
            (scaled, "") => trimmed(scaled),
            (scaled, prefix) => format!("{} {prefix}", three_digits(scaled)),
        }
    })
}

/// [`metric`] without trailing zeros, for the ticks of axes: `2 M`.
#[must_use]
pub fn metric_brief(value: f64) -> String {
    let text = metric(value);
    match text.split_once(' ') {
        Some((number, prefix)) => format!("{} {prefix}", without_zeros(number)),
        None => text,
    }
}

/// A whole number with thousands separated: `count(6_773_040_390)` is `6,773,040,390`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A whole number that may be negative, with thousands separated.
#[must_use]
pub fn signed_count(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// A size: `bytes(65_536)` is `64 KiB`, `bytes(510)` is `510 B`.
#[must_use]
pub fn bytes(number: u64) -> String {
    let (scaled, unit) = scale_down(number as f64, 1024.0, &BINARY_UNITS);
    format!("{} {unit}", trimmed(scaled))
}

/// Bytes per second as bits: `1.5 Gbit/s`, `15 bit/s`.
#[must_use]
pub fn bits(bytes_per_second: f64) -> String {
    let number = metric(bytes_per_second * 8.0);
    // A number has a space before its prefix, and none without one.
    let space = if number.contains(' ') { "" } else { " " };
    format!("{number}{space}bit/s")
}

/// A length of time: `duration(1_200_000.0)` is `1.2 ms`.
#[must_use]
pub fn duration(nanoseconds: f64) -> String {
    finite(nanoseconds, |time| {
        let (scaled, unit) = scale_down(time, 1000.0, &["ns", "\u{b5}s", "ms", "s"]);
        format!("{} {unit}", trimmed(scaled))
    })
}

/// A share of 1 in percent, one decimal: `percent(0.991)` is `99.1 %`.
///
/// Only 1 is `100 %` and only 0 is `0 %`: a steering check that failed once in a million frames must not look perfect. Close
/// to 1 there are as many nines as are true, up to `99.999 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    finite(share, |share| format!("{} %", percent_number(share)))
}

/// A share of 1 in whole percent without the sign: `whole_percent(0.304)` is `30`.
#[must_use]
pub fn whole_percent(share: f64) -> String {
    fixed(share * 100.0, 0)
}

/// The number of [`percent`] without its sign, for table columns whose unit row says `%`.
#[must_use]
pub fn percent_number(share: f64) -> String {
    finite(share * 100.0, |percentage| match percentage {
        0.0 | 100.0 => format!("{percentage:.0}"),
        99.95..100.0 => {
            let nines = (1e-9 - (1.0 - share).log10()) as usize;
            format!("99.{}", "9".repeat((nines - 2).min(3)))
        }
        0.0..0.05 => "<0.1".to_owned(),
        _ => format!("{percentage:.1}"),
    })
}

/// A quotient of two like things: `ratio(1.142)` is `1.14x`.
#[must_use]
pub fn ratio(quotient: f64) -> String {
    finite(quotient, |quotient| format!("{quotient:.2}x"))
}

/// A number with `decimals` digits after the point.
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    finite(value, |value| format!("{value:.decimals$}"))
}

/// The text of a number that may be missing: [`MISSING`] for `None`.
#[must_use]
pub fn or_missing<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), show)
}

fn finite(value: f64, show: impl FnOnce(f64) -> String) -> String {
    or_missing(Some(value).filter(|value| value.is_finite()), show)
}

/// Divides until at most three digits are shown before the point, and returns the unit of that many divisions.
/// Rounding is taken into account: 999,950 is `1.00 M`, not `1000 k`.
fn scale_down(value: f64, step: f64, units: &[&'static str]) -> (f64, &'static str) {
    let mut scaled = value;
    let mut unit = 0;
    while unit + 1 < units.len() && scaled.abs() >= step - 0.5 {
        scaled /= step;
        unit += 1;
    }
    (scaled, units[unit])
}

/// Three significant digits, trailing zeros kept, so that a column of them lines up.
fn three_digits(scaled: f64) -> String {
    let decimals = [9.995, 99.95]
        .into_iter()
        .filter(|limit| scaled.abs() < *limit)
        .count();
    format!("{scaled:.decimals$}")
}

/// Three significant digits without trailing zeros.
fn trimmed(scaled: f64) -> String {
    without_zeros(&three_digits(scaled)).to_owned()
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_the_posts_write_them() {
        let shown: Vec<String> = [
            0.0,
            0.5,
            850.0,
            999.6,
            215_000.0,
            710_000.0,
            999_950.0,
            1_720_000.0,
            12_345_678.0,
        ]
        .into_iter()
        .map(rate)
        .collect();
        let expected = [
            "0/s", "0.5/s", "850/s", "1.00 k/s", "215 k/s", "710 k/s", "1.00 M/s", "1.72 M/s", "12.3 M/s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn ticks_carry_no_trailing_zeros() {
        let shown: Vec<String> = [0.0, 250.0, 1_500.0, 200_000.0, 2_000_000.0]
            .map(metric_brief)
            .into();
        assert_eq!(shown, ["0", "250", "1.5 k", "200 k", "2 M"]);
    }

    #[test]
    fn counts_keep_every_digit() {
        assert_eq!(count(6_773_040_390), "6,773,040,390");
        assert_eq!(count(136), "136");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(signed_count(-1_234), "-1,234");
        assert_eq!(signed_count(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn sizes_take_binary_prefixes() {
        let shown: Vec<String> = [0, 510, 1023, 1024, 1536, 65_507, 65_536, 1 << 30]
            .map(bytes)
            .into();
        let expected = [
            "0 B", "510 B", "1023 B", "1 KiB", "1.5 KiB", "64 KiB", "64 KiB", "1 GiB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn durations_take_the_unit_that_fits() {
        let shown: Vec<String> = [0.0, 12.0, 999.9, 1_234.0, 1_200_000.0, 30e9]
            .map(duration)
            .into();
        assert_eq!(
            shown,
            ["0 ns", "12 ns", "1 \u{b5}s", "1.23 \u{b5}s", "1.2 ms", "30 s"]
        );
    }

    #[test]
    fn a_share_short_of_one_never_shows_as_all() {
        assert_eq!(percent(1.0), "100 %");
        for (share, shown) in [
            (0.999_6, "99.9 %"),
            (0.999_9, "99.99 %"),
            (0.999_95, "99.99 %"),
            (0.999_99, "99.999 %"),
            (0.999_999_9, "99.999 %"),
        ] {
            assert_eq!(percent(share), shown);
        }
        assert_eq!(percent(0.991), "99.1 %");
        assert_eq!(percent(0.000_001), "<0.1 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.079), "107.9 %");
    }

    #[test]
    fn a_missing_number_is_a_dash() {
        assert_eq!(rate(f64::NAN), MISSING);
        assert_eq!(percent(f64::INFINITY), MISSING);
        assert_eq!(or_missing(None, rate), MISSING);
        assert_eq!(or_missing(Some(1.142), ratio), "1.14x");
    }
}
