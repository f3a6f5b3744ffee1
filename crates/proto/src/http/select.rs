//! Which part of a file a request is for: its conditions and ranges (RFC 9110 13 and 14), and what the file is, in; a
//! [`Selected`] out.

use super::request::Head;
use super::{date, field};
use std::ops::Range;

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    /// Its length in bytes.
    pub length: u64,
    /// Its strong entity tag, with its quotes.
    pub tag: String,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
}

/// What is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// 200 with all of it.
    Whole,
    /// 206 with these bytes.
    Part(Range<u64>),
    /// 304: the client has it.
    NotModified,
    /// 412: it is not what the client means.
    PreconditionFailed,
    /// 416: there are no such bytes.
    Unsatisfiable,
}

/// Decides by the fields of a GET or HEAD request, in the order of RFC 9110 13.2.2.
///
/// Of several ranges the whole is sent, as RFC 9110 14.2 lets a server do: a client that asks for overlapping or many
/// small ranges is to cost no more than others.
#[must_use]
pub fn select(head: &Head<'_>, file: &Representation) -> Selected {
    let changed_since = |value: &[u8]| date::read(value).map(|moment| file.modified > moment);
    let precondition = match head.field("If-Match") {
        Some(tags) => lists_tag(tags, &file.tag, Comparison::Strong),
        None => head
            .field("If-Unmodified-Since")
            .and_then(changed_since)
            .is_none_or(|changed| !changed),
    };
    if !precondition {
        return Selected::PreconditionFailed;
    }
    let known = match head.field("If-None-Match") {
        Some(tags) => lists_tag(tags, &file.tag, Comparison::Weak),
        None => head
            .field("If-Modified-Since")
            .and_then(changed_since)
            .is_some_and(|changed| !changed),
    };
    if known {
        return Selected::NotModified;
    }
    let Some(range) = head.field("Range").filter(|_| head.method == b"GET") else {
        return Selected::Whole;
    };
    let same = head.field("If-Range").is_none_or(|value| {
        // A date counts only as an exact match; a weak tag never (RFC 9110 13.1.5).
        value == file.tag.as_bytes() || date::read(value) == Some(file.modified)
    });
    match (same, range_of(range, file.length)) {
        (true, Asked::Part(range)) => Selected::Part(range),
        (true, Asked::Unsatisfiable) => Selected::Unsatisfiable,
        _ => Selected::Whole,
    }
}

enum Comparison {
    Strong,
    Weak,
}

fn lists_tag(value: &[u8], tag: &str, comparison: Comparison) -> bool {
    if value == b"*" {
        return true;
    }
    // Our tags hold no comma, so that a list may be split at each of them.
    value.split(|byte| *byte == b',').any(|member| {
        let member = field::trim(member);
        match comparison {
            Comparison::Strong => member == tag.as_bytes(),
            Comparison::Weak => member.strip_prefix(b"W/").unwrap_or(member) == tag.as_bytes(),
        }
    })
}

enum Asked {
    Part(Range<u64>),
    Unsatisfiable,
    /// Not understood, or several: the field is as good as not there.
    Ignored,
}

fn range_of(value: &[u8], length: u64) -> Asked {
    let Some((unit, set)) = std::str::from_utf8(value)
        .ok()
        .and_then(|value| value.split_once('='))
    else {
        return Asked::Ignored;
    };
    let Some((first, last)) = set
        .trim()
        .split_once('-')
        .filter(|_| unit.trim().eq_ignore_ascii_case("bytes"))
    else {
        return Asked::Ignored;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More than any length is as good as the largest.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first, last) {
        ("", last) => match number(last) {
            Some(0) => return Asked::Unsatisfiable,
            Some(suffix) => length.saturating_sub(suffix)..length,
            None => return Asked::Ignored,
        },
        (first, "") => match number(first) {
            Some(first) => first..length,
            None => return Asked::Ignored,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
            _ => return Asked::Ignored,
        },
    };
    if range.start < range.end && range.start < length {
        Asked::Part(range)
    } else {
        Asked::Unsatisfiable
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
