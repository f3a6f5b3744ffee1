//! Parses the requests of one connection: takes bytes in any segments, returns heads and slices of bodies.
//!
//! [`read`] parses a head at the front of the received bytes. It is stateless: if the head is incomplete, the caller
//! keeps the bytes and calls again with more. Every line is validated once it is complete, so that an invalid request
//! is rejected at once. [`BodyReader`] then reads the body.
//!
//! Errors according to RFC 9112 are rejected, and so is anything it leaves open that two recipients could frame
//! differently.

mod error;

pub use crate::http::chunked::BodyReader;
pub use crate::http::head::{Fields, Framing, Version};
pub use error::RequestError;

use crate::http::{field, head};
use memchr::memchr;

/// The longest method of the IANA registry (UPDATEREDIRECTREF); longer ones get 501 (RFC 9112 3).
const LONGEST_METHOD: usize = 17;

/// Limits of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of the request line, without CR LF; RFC 9112 3 recommends at least 8,000.
    pub line_bytes: u32,
    /// Maximum bytes of the whole head, including the final empty line.
    pub head_bytes: u32,
    /// Maximum number of fields.
    pub fields: u16,
}

impl Default for Limits {
    /// 8 KiB, 16 KiB and 100: similar to Apache and nginx.
    fn default() -> Self {
        Self {
            line_bytes: 8_192,
            head_bytes: 16_384,
            fields: 100,
        }
    }
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    /// Method, as sent; a token, case-sensitive.
    pub method: &'a [u8],
    /// Target, as sent; visible ASCII.
    pub target: &'a [u8],
    /// Version; 1.1 for anything between 1.1 and 2.
    pub version: Version,
    /// Framing of its body.
    pub framing: Framing,
    /// Whether the client wants to keep the connection open.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Length of the head in bytes.
    pub bytes: usize,
    /// The fields, in order.
    pub fields: Fields<'a>,
}

impl<'a> Head<'a> {
    /// The value of the first field with this name, ignoring case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut fields = self.fields.clone();
        fields.find_map(|(given, value)| given.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
    }

    /// Path and query of the target: all of it in origin form, the part after the authority in absolute form.
    #[must_use]
    pub fn path_and_query(&self) -> &'a [u8] {
        match absolute(self.target) {
            Some((_, b"")) => b"/",
            Some((_, rest)) => rest,
            None => self.target,
        }
    }
}

/// Parses a head at the front of `input`; `None` if it is incomplete.
///
/// Leading empty lines are skipped (RFC 9112 2.2).
///
/// # Errors
/// If the request is invalid; see [`RequestError`].
pub fn read<'a>(input: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, RequestError> {
    let mut at = empty_lines(input);
    if at > limits.line_bytes as usize {
        return Err(RequestError::LineTooLong(limits.line_bytes));
    }
    let too_long = RequestError::LineTooLong(limits.line_bytes);
    let Some(line) = next_line(input, at, limits.line_bytes as usize, too_long)? else {
        check_start(&input[at..])?;
        return Ok(None);
    };
    let start = read_start(line)?;
    at += line.len() + 2;
    let first_field = at;
    let mut draft = Draft::default();
    loop {
        let too_long = RequestError::HeadTooLong(limits.head_bytes);
        let room = (limits.head_bytes as usize).checked_sub(at + 2).ok_or(too_long)?;
        let Some(line) = next_line(input, at, room, too_long)? else {
            return Ok(None);
        };
        at += line.len() + 2;
        if line.is_empty() {
            let fields = &input[first_field..at - 2];
            return draft.finish(start, fields, at).map(Some);
        }
        let (name, value) = draft.fields.split(line, limits.fields)?;
        draft.take(name, value)?;
    }
}

/// Length of the empty lines at the front of `input`: before a request line they are no part of a request (RFC 9112
/// 2.2).
#[must_use]
pub fn empty_lines(input: &[u8]) -> usize {
    let lines = input.chunks_exact(2).take_while(|line| line == b"\r\n");
    2 * lines.count()
}

/// The line at `at`, without its end; `None` if incomplete. It may have up to `most` bytes, without its end.
fn next_line(
    input: &[u8],
    at: usize,
    most: usize,
    too_long: RequestError,
) -> Result<Option<&[u8]>, RequestError> {
    let rest = &input[at..];
    let Some(end) = memchr(b'\n', rest) else {
        // A final CR may still be followed by LF; an earlier one cannot.
        let whole = rest.strip_suffix(b"\r").unwrap_or(rest);
        return match memchr(b'\r', whole) {
            Some(_) => Err(RequestError::LineEnd),
            None if whole.len() > most => Err(too_long),
            None => Ok(None),
        };
    };
    match rest[..end].strip_suffix(b"\r") {
        Some(line) if line.len() > most => Err(too_long),
        // A CR within a value is later rejected as a control character, one within a request line as part of the
        // target.
        Some(line) => Ok(Some(line)),
        None => Err(RequestError::LineEnd),
    }
}

/// Rejects input that cannot be the beginning of a request line, such as the first bytes of TLS.
fn check_start(beginning: &[u8]) -> Result<(), RequestError> {
    let method = beginning.split(|byte| *byte == b' ').next().unwrap_or_default();
    let method = method.strip_suffix(b"\r").unwrap_or(method);
    if !method.iter().all(|byte| field::is_token_byte(*byte)) {
        return Err(RequestError::RequestLine);
    }
    if method.len() > LONGEST_METHOD {
        return Err(RequestError::MethodTooLong);
    }
    Ok(())
}

/// Method, target and version.
type Start<'a> = (&'a [u8], &'a [u8], Version);

fn read_start(line: &[u8]) -> Result<Start<'_>, RequestError> {
    let first = memchr(b' ', line).ok_or(RequestError::RequestLine)?;
    let (method, rest) = (&line[..first], &line[first + 1..]);
    if !field::is_token(method) {
        return Err(RequestError::RequestLine);
    }
    if method.len() > LONGEST_METHOD {
        return Err(RequestError::MethodTooLong);
    }
    let second = memchr(b' ', rest).ok_or(RequestError::RequestLine)?;
    let (target, version) = (&rest[..second], &rest[second + 1..]);
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Version::Http11,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(RequestError::Version);
        }
        _ => return Err(RequestError::RequestLine),
    };
    check_target(method, target)?;
    Ok((method, target, version))
}

/// The forms of RFC 9112 3.2: `/path`, `http://authority/path`; `authority` for CONNECT only, `*` for OPTIONS only.
fn check_target(method: &[u8], target: &[u8]) -> Result<(), RequestError> {
    let visible = target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#');
    let valid = match target {
        [b'/', ..] => method != b"CONNECT",
        b"*" => method == b"OPTIONS",
        _ if method == b"CONNECT" => field::is_authority(target),
        _ => absolute(target).is_some_and(|(authority, rest)| {
            field::is_authority(authority) && matches!(rest.first(), None | Some(b'/' | b'?'))
        }),
    };
    if visible && valid {
        Ok(())
    } else {
        Err(RequestError::Target)
    }
}

/// Authority and the rest of an absolute target.
fn absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let after = |scheme: &[u8]| {
        let (given, rest) = target.split_at_checked(scheme.len())?;
        given.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let rest = after(b"http://").or_else(|| after(b"https://"))?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    Some(rest.split_at(end.unwrap_or(rest.len())))
}

/// State derived from the fields parsed so far.
#[derive(Default)]
struct Draft {
    fields: head::Draft,
    host: bool,
    expects_continue: bool,
}

impl Draft {
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                // An empty one is valid if the target has no authority (RFC 9112 3.2).
                if self.host || !(value.is_empty() || field::is_authority(value)) {
                    return Err(RequestError::Host);
                }
                self.host = true;
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(RequestError::Expectation);
                }
                self.expects_continue = true;
            }
            _ => self.fields.take(name, value)?,
        }
        Ok(())
    }

    fn finish<'a>(
        self,
        (method, target, version): Start<'a>,
        fields: &'a [u8],
        bytes: usize,
    ) -> Result<Head<'a>, RequestError> {
        let new = version == Version::Http11;
        if !self.host && new {
            return Err(RequestError::Host);
        }
        let framing = self.fields.framing(version)?;
        Ok(Head {
            method,
            target,
            version,
            framing,
            keep_alive: self.fields.keep_alive(version),
            // Ignored in HTTP/1.0 (RFC 9110 10.1.1) and without a body.
            expects_continue: self.expects_continue && new && framing != Framing::None,
            bytes,
            fields: Fields(fields),
        })
    }
}

#[cfg(test)]
mod tests;
