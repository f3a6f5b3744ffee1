//! Field lines, `name: value` (RFC 9110 5.1 and 5.5): takes one line without its line end, returns name and value.

use std::net::Ipv6Addr;
use thiserror::Error;

/// Character classes of a byte.
const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const HOST: u8 = 4;

/// The classes of each byte: token characters (RFC 9110 5.6.2); visible, obs-text, space and tab (RFC 9110 5.5); those of
/// a host name, without percent-encoding (RFC 3986 3.2.2).
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let is = byte as u8;
        if is.is_ascii_alphanumeric() {
            classes[byte] = TOKEN | HOST;
        }
        if is == b'\t' || (is >= b' ' && is != 0x7f) {
            classes[byte] |= VALUE;
        }
        byte += 1;
    }
    let punctuation: [(&[u8], u8); 2] = [(b"!#$%&'*+-.^_`|~", TOKEN), (b"-._~!$&'()*+,;=", HOST)];
    let mut place = 0;
    while place < punctuation.len() {
        let (mut bytes, class) = punctuation[place];
        while let [byte, rest @ ..] = bytes {
            classes[*byte as usize] |= class;
            bytes = rest;
        }
        place += 1;
    }
    classes
};

/// Why a field line is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The line starts with space or tab: line folding, which RFC 9112 5.2 has deprecated.
    #[error("a field line is continued on the next (obs-fold)")]
    Folded,
    /// No name, an invalid character in the name, a space before the colon (RFC 9112 5.1), or no colon.
    #[error("a field has no valid name before its colon")]
    Name,
    /// A control character in the value, such as a bare CR.
    #[error("a field's value has a control character")]
    Value,
}

/// Splits a line into name and value, without spaces and tabs around the value.
///
/// # Errors
/// If the line is invalid, see [`FieldError`].
pub fn split(line: &[u8]) -> Result<(&[u8], &[u8]), FieldError> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(FieldError::Folded);
    }
    let colon = line.iter().position(|byte| !is_token_byte(*byte));
    let colon = colon.filter(|colon| *colon > 0 && line[*colon] == b':');
    let colon = colon.ok_or(FieldError::Name)?;
    let value = trim(&line[colon + 1..]);
    if is_text(value) {
        Ok((&line[..colon], value))
    } else {
        Err(FieldError::Value)
    }
}

/// Whether names and methods may contain this byte.
#[must_use]
pub fn is_token_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// Whether this is a token: at least one byte, all of them token characters.
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// Whether values and reason phrases may contain these bytes: no control characters except tab.
#[must_use]
pub fn is_text(text: &[u8]) -> bool {
    let mut words = text.chunks_exact(8);
    let plain = words.by_ref().all(|word| {
        let word = u64::from_le_bytes(word.try_into().expect("chunks_exact gives eight bytes"));
        !may_hold_control(word) || word.to_le_bytes().iter().all(|byte| is_text_byte(*byte))
    });
    plain && words.remainder().iter().all(|byte| is_text_byte(*byte))
}

/// Whether a list of tokens, such as `Connection`, contains `token` (RFC 9110 5.6.1), ignoring case.
#[must_use]
pub fn lists(value: &[u8], token: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|member| trim(member).eq_ignore_ascii_case(token))
}

/// Whether this is a valid host with optional port (RFC 3986 3.2.2 and 3.2.3): no user, no path, no space.
pub(super) fn is_authority(text: &[u8]) -> bool {
    let host = if let [b'[', rest @ ..] = text {
        let end = rest.iter().position(|byte| *byte == b']');
        end.filter(|end| is_address(&rest[..*end])).map(|end| end + 2)
    } else {
        host_name(text).filter(|end| *end > 0)
    };
    match host.map(|end| &text[end..]) {
        Some([]) => true,
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Length of the registered name or IPv4 address at the front of an authority; `None` if percent-encoding is invalid.
fn host_name(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|byte| is_host_byte(**byte)).count();
        match &text[at..] {
            [b'%', first, second, ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => at += 3,
            [b'%', ..] => return None,
            _ => return Some(at),
        }
    }
}

/// Whether this is an IPv6 address, or one of a later version (`IPvFuture` of RFC 3986 3.2.2).
fn is_address(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let later = || {
        let (version, address) = text.strip_prefix(['v', 'V'])?.split_once('.')?;
        let version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        let address = !address.is_empty() && address.bytes().all(|byte| byte == b':' || is_host_byte(byte));
        Some(version && address)
    };
    text.parse::<Ipv6Addr>().is_ok() || later() == Some(true)
}

fn is_host_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & HOST != 0
}

/// Parses a length: digits only, at most 63 bits: larger than any body, and safe to add to.
pub(super) fn length(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = text.iter().try_fold(0u64, |length, digit| {
        length.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    i64::try_from(length).ok().map(|_| length)
}

/// Strips spaces and tabs from both ends.
#[must_use]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

fn is_text_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & VALUE != 0
}

/// Whether any of eight bytes is below 0x20 or is 0x7f; a fast check, because most values have none. A byte above such
/// a byte may be a false positive (the borrow propagates upwards), so the caller rechecks byte by byte.
fn may_hold_control(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let under_space = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete & HIGHS;
    under_space | is_delete != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_field_loses_the_space_around_its_value() {
        assert_eq!(
            split(b"Content-Length: \t42 \t"),
            Ok((&b"Content-Length"[..], &b"42"[..]))
        );
        assert_eq!(split(b"Empty:"), Ok((&b"Empty"[..], &b""[..])));
    }

    #[test]
    fn what_is_no_field_is_refused_by_name() {
        let cases: [(&[u8], FieldError); 7] = [
            (b" folded: yes", FieldError::Folded),
            (b"\tfolded", FieldError::Folded),
            (b"Host : spaced", FieldError::Name),
            (b": nameless", FieldError::Name),
            (b"no colon", FieldError::Name),
            (b"Bare: a\rb", FieldError::Value),
            (b"Delete: long enough\x7f", FieldError::Value),
        ];
        for (line, error) in cases {
            assert_eq!(split(line), Err(error), "{:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn an_authority_is_a_host_with_or_without_a_port() {
        for text in [
            "a",
            "a.example:80",
            "127.0.0.1:8080",
            "a:",
            "a%20b",
            "a_b~!$&'()*+,;=",
            "[::1]",
            "[2001:db8::1]:443",
            "[::ffff:1.2.3.4]:",
            "[v1.a:b]",
        ] {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ":",
            ":80",
            "a:b",
            "a:80:80",
            "a:+80",
            "[::1",
            "[::1]80",
            "[::1]a",
            "[::1]:a",
            "::1",
            "::",
            "[]",
            "[zz]",
            "[1.2.3.4]",
            "[::1%lo]",
            "[v.a]",
            "[v1.]",
            "[::1]]",
            "a]",
            "a[b",
            "a%zz",
            "a%2",
            "a%",
            "u@a",
            "a/b",
            "a b",
            "a\u{e4}",
        ] {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_list_names_its_members_in_any_case() {
        assert!(lists(b"Upgrade, Keep-Alive", b"keep-alive"));
        assert!(!lists(b"closed, not-close", b"close"));
    }

    proptest! {
        #[test]
        fn text_is_told_from_controls_eight_bytes_at_a_time(text: Vec<u8>) {
            let byte_by_byte = text.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f));
            prop_assert_eq!(is_text(&text), byte_by_byte);
        }
    }
}
