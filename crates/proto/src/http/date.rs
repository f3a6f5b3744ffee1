//! HTTP dates (RFC 9110 5.6.7): converts seconds since 1970 to `Sun, 06 Nov 1994 08:49:37 GMT`, and back.

use std::fmt::Display;
use time::{Date, Month, OffsetDateTime};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// Formats a time in seconds since 1970-01-01 00:00 UTC; 29 bytes, because the year is limited to 9999.
#[must_use]
pub fn write(seconds: u64) -> String {
    let day = moment(seconds).weekday().to_string();
    format!("{}, {} GMT", &day[..3], day_and_time(seconds, ' ', ' '))
}

/// Formats a time as in access logs: `06/Nov/1994:08:49:37 +0000`.
#[must_use]
pub fn write_log(seconds: u64) -> String {
    format!("{} +0000", day_and_time(seconds, '/', ':'))
}

fn day_and_time(seconds: u64, within: impl Display, between: impl Display) -> String {
    let at = moment(seconds);
    let (hour, minute, second) = at.to_hms();
    format!(
        "{:02}{within}{}{within}{:04}{between}{hour:02}:{minute:02}:{second:02}",
        at.day(),
        MONTHS[at.month() as usize - 1],
        at.year(),
    )
}

fn moment(seconds: u64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds.min(LAST) as i64).expect("a year up to 9999")
}

/// Parses a date in the preferred form or in one of the two obsolete ones; dates before 1970 are rejected.
#[must_use]
pub fn read(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (day_name, rest) = text.split_once(' ')?;
    let parts: Vec<&str> = rest.split([' ', '-']).filter(|part| !part.is_empty()).collect();
    let (day, month, year, time) = match (day_name.strip_suffix(','), parts.as_slice()) {
        // Sun, 06 Nov 1994 08:49:37 GMT, and Sunday, 06-Nov-94 08:49:37 GMT
        (Some(_), [day, month, year, time, "GMT"]) => (*day, *month, *year, *time),
        // Sun Nov  6 08:49:37 1994
        (None, [month, day, time, year]) => (*day, *month, *year, *time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u8 + 1;
    let year = match (year.len(), digits(year)?) {
        (4, year) => year,
        // Two-digit years are in this century unless that is far in the future (RFC 9110 5.6.7); before 1970 is
        // irrelevant here.
        (2, year) if year < 70 => 2_000 + year,
        (2, year) => 1_900 + year,
        _ => return None,
    };
    let day = u8::try_from(digits(day)?).ok()?;
    let time: Vec<u64> = time.split(':').map(digits).collect::<Option<_>>()?;
    let [hour @ 0..24, minute @ 0..60, second @ 0..=60] = time[..] else {
        return None;
    };
    let date = Date::from_calendar_date(year as i32, Month::try_from(month).ok()?, day).ok()?;
    let midnight = u64::try_from(date.midnight().assume_utc().unix_timestamp()).ok()?;
    Some(midnight + hour * 3_600 + minute * 60 + second)
}

fn digits(text: &str) -> Option<u64> {
    let valid = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_of_the_standard_are_one_moment() {
        let moment = 784_111_777;
        assert_eq!(write(moment), "Sun, 06 Nov 1994 08:49:37 GMT");
        for form in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(read(form.as_bytes()), Some(moment), "{form}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 25:00:00 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Mon, 30 Feb 2026 08:49:37 GMT",
            "Sun, 29 Feb 2026 08:49:37 GMT",
            "Mon Feb 30 08:49:37 2026",
            "Sun, 06 Nov 1994 08:49:37 CET",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_written_is_read_back(seconds in 0..253_402_300_800u64) {
            let written = write(seconds);
            prop_assert_eq!(written.len(), 29);
            prop_assert_eq!(read(written.as_bytes()), Some(seconds));
        }
    }
}
