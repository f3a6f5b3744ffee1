//! Dates as HTTP spells them (RFC 9110 5.6.7): seconds since 1970 in, `Sun, 06 Nov 1994 08:49:37 GMT` out, and back.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY: u64 = 86_400;

/// The date of a moment, seconds since 1970-01-01 00:00 UTC; 29 bytes up to the year 9999.
#[must_use]
pub fn write(seconds: u64) -> String {
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize - 1],
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// The date of a moment as access logs spell it: `06/Nov/1994:08:49:37 +0000`.
#[must_use]
pub fn write_log(seconds: u64) -> String {
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    format!(
        "{day:02}/{}/{year:04}:{:02}:{:02}:{:02} +0000",
        MONTHS[month as usize - 1],
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// The moment of a date in the preferred form or in one of the two obsolete ones, none of which may be before 1970.
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
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = match (year.len(), digits(year)?) {
        (4, year) => year,
        // Two digits are of this century unless that lies far ahead (RFC 9110 5.6.7); before 1970 is not of interest here.
        (2, year) if year < 70 => 2_000 + year,
        (2, year) => 1_900 + year,
        _ => return None,
    };
    let day = digits(day).filter(|day| (1..=31).contains(day))?;
    let time: Vec<u64> = time.split(':').map(digits).collect::<Option<_>>()?;
    let [hour @ 0..24, minute @ 0..60, second @ 0..=60] = time[..] else {
        return None;
    };
    let days = days_of(year, month, day)?;
    Some(days * DAY + hour * 3_600 + minute * 60 + second)
}

fn digits(text: &str) -> Option<u64> {
    let valid = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

/// Year, month and day of a day counted from 1970-01-01 (Hinnant: chrono-compatible low-level date algorithms).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The day of a date, counted from 1970-01-01; the inverse of [`civil`].
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
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
