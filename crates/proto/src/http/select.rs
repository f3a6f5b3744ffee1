//! Selects the part of a file to send: takes the conditions and ranges of a request (RFC 9110 13 and 14) and the file's
//! metadata, returns a [`Selected`].

use super::request::Head;
use super::{date, field};
use std::ops::Range;

/// Metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    /// Length in bytes.
    pub length: u64,
    /// Strong entity tag, including quotes.
    pub tag: String,
    /// Time of the last modification, in seconds since 1970.
    pub modified: u64,
}

/// The response to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// 200 with the whole file.
    Whole,
    /// 206 with these bytes.
    Part(Range<u64>),
    /// 304: the client's copy is current.
    NotModified,
    /// 412: a precondition failed.
    PreconditionFailed,
    /// 416: the range is outside the file.
    Unsatisfiable,
}

/// Evaluates the fields of a GET or HEAD request, in the order of RFC 9110 13.2.2.
///
/// For several ranges, the whole file is sent (allowed by RFC 9110 14.2), so that overlapping or many small ranges have
/// no additional cost.
#[must_use]
pub fn select(head: &Head<'_>, file: &Representation) -> Selected {
    let changed_since = |name| {
        let moment = date::read(head.field(name)?)?;
        Some(file.modified > moment)
    };
    // Weak tags suffice if only equivalent content matters. Our tags contain no comma, so that a list can be split at
    // commas.
    let lists_tag = |tags: &[u8], weak: bool| {
        let is_tag = |member: &[u8]| {
            let member = field::trim(member);
            let bare = member.strip_prefix(b"W/").filter(|_| weak);
            bare.unwrap_or(member) == file.tag.as_bytes()
        };
        tags == b"*" || tags.split(|byte| *byte == b',').any(is_tag)
    };
    // Several lines of one field are one list (RFC 9110 5.3).
    let any_lists = |name: &'static str, weak| {
        let lines = || {
            head.fields
                .clone()
                .filter(|(given, _)| given.eq_ignore_ascii_case(name.as_bytes()))
        };
        let listed = || lines().any(|(_, tags)| lists_tag(tags, weak));
        head.field(name).map(|_| listed())
    };
    let precondition = match any_lists("If-Match", false) {
        Some(listed) => listed,
        None => changed_since("If-Unmodified-Since") != Some(true),
    };
    if !precondition {
        return Selected::PreconditionFailed;
    }
    let known = match any_lists("If-None-Match", true) {
        Some(listed) => listed,
        None => changed_since("If-Modified-Since") == Some(false),
    };
    if known {
        return Selected::NotModified;
    }
    let range = head.field("Range").filter(|_| head.method == b"GET");
    let same = head.field("If-Range").is_none_or(|value| {
        // A date must match exactly; a weak tag never matches (RFC 9110 13.1.5).
        value == file.tag.as_bytes() || date::read(value) == Some(file.modified)
    });
    match range.and_then(|range| range_of(range, file.length)) {
        Some(range) if same && range.is_empty() => Selected::Unsatisfiable,
        Some(range) if same => Selected::Part(range),
        _ => Selected::Whole,
    }
}

/// The bytes selected by a range of a file of this length; empty if there are none. `None` if the field is invalid or
/// has several ranges: it is then ignored.
fn range_of(value: &[u8], length: u64) -> Option<Range<u64>> {
    let (unit, set) = std::str::from_utf8(value).ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that overflows is clamped to the largest.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match set.trim().split_once('-')? {
        ("", suffix) => Some(length.saturating_sub(number(suffix)?)..length),
        (first, "") => Some(number(first)?..length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{Limits, read};

    fn decide(method: &str, fields: &str) -> Selected {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let file = Representation {
            length: 1_000,
            tag: "\"abc\"".to_owned(),
            modified: 784_111_777,
        };
        let head = read(text.as_bytes(), &Limits::default()).unwrap().unwrap();
        select(&head, &file)
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (range, expected) in [
            ("bytes=0-0", Selected::Part(0..1)),
            ("bytes=500-", Selected::Part(500..1_000)),
            ("bytes=-200", Selected::Part(800..1_000)),
            ("bytes=-2000", Selected::Part(0..1_000)),
            ("bytes=999-99999999999999999999", Selected::Part(999..1_000)),
            ("bytes=1000-", Selected::Unsatisfiable),
            ("bytes=-0", Selected::Unsatisfiable),
            ("bytes=5-4", Selected::Whole),
            ("bytes=0-1,5-6", Selected::Whole),
            ("bytes=a-b", Selected::Whole),
            ("lines=0-1", Selected::Whole),
        ] {
            assert_eq!(decide("GET", &format!("Range: {range}")), expected, "{range}");
            assert_eq!(
                decide("HEAD", &format!("Range: {range}")),
                Selected::Whole,
                "{range}"
            );
        }
    }

    #[test]
    fn conditions_are_asked_in_the_order_of_the_standard() {
        let same = "Sun, 06 Nov 1994 08:49:37 GMT";
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (fields, expected) in [
            ("If-None-Match: \"abc\"".to_owned(), Selected::NotModified),
            (
                "If-None-Match: \"x\", W/\"abc\"".to_owned(),
                Selected::NotModified,
            ),
            ("If-None-Match: *".to_owned(), Selected::NotModified),
            ("If-None-Match: \"x\"".to_owned(), Selected::Whole),
            (format!("If-Modified-Since: {same}"), Selected::NotModified),
            (format!("If-Modified-Since: {earlier}"), Selected::Whole),
            (
                format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {same}"),
                Selected::Whole,
            ),
            ("If-Match: \"x\"".to_owned(), Selected::PreconditionFailed),
            (
                "If-None-Match: \"x\"\r\nif-none-match: \"abc\"".to_owned(),
                Selected::NotModified,
            ),
            ("If-Match: \"x\"\r\nIf-Match: \"abc\"".to_owned(), Selected::Whole),
            ("If-Match: W/\"abc\"".to_owned(), Selected::PreconditionFailed),
            (
                format!("If-Unmodified-Since: {earlier}"),
                Selected::PreconditionFailed,
            ),
            (
                format!("If-Match: \"abc\"\r\nIf-Unmodified-Since: {earlier}"),
                Selected::Whole,
            ),
            (
                "Range: bytes=1-2\r\nIf-Range: \"abc\"".to_owned(),
                Selected::Part(1..3),
            ),
            (
                "Range: bytes=1-2\r\nIf-Range: W/\"abc\"".to_owned(),
                Selected::Whole,
            ),
            (
                format!("Range: bytes=1-2\r\nIf-Range: {same}"),
                Selected::Part(1..3),
            ),
            (
                format!("Range: bytes=1-2\r\nIf-Range: {earlier}"),
                Selected::Whole,
            ),
            ("If-Modified-Since: yesterday".to_owned(), Selected::Whole),
        ] {
            assert_eq!(decide("GET", &fields), expected, "{fields}");
        }
    }
}
