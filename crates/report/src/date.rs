//! Formats the dates of documents.

use time::OffsetDateTime;

/// `2025-10-09 08:53 UTC`.
pub fn utc(unix_seconds: u64) -> String {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;
    let at = OffsetDateTime::from_unix_timestamp(unix_seconds.min(LAST) as i64).expect("a year up to 9999");
    let month = u8::from(at.month());
    format!(
        "{:04}-{month:02}-{:02} {:02}:{:02} UTC",
        at.year(),
        at.day(),
        at.hour(),
        at.minute()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_named_right() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_760_000_000), "2025-10-09 08:53 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn no_moment_panics() {
        assert!(utc(u64::MAX).ends_with(" UTC"));
    }
}
