//! The requests of one connection: bytes in any split enter, heads and slices of bodies leave.
//!
//! [`read`] takes a head off the front of what has arrived. It keeps nothing: a caller with a head that is not complete
//! keeps the bytes and reads again with more. Every line is checked as soon as it is there, so that what can never become
//! a request is refused at once. [`BodyReader`] then takes the body.
//!
//! Whatever RFC 9112 calls an error is one, and so is whatever it leaves to the recipient that two recipients could frame
//! differently.

mod error;

use crate::http::chunked::Decoder;

pub use crate::http::chunked::BodyReader;
pub use crate::http::response::{Fields, Version};
pub use error::RequestError;

use crate::http::field;
use memchr::memchr;

/// The longest method of the IANA registry (UPDATEREDIRECTREF); a server answers 501 to longer ones (RFC 9112 3).
const LONGEST_METHOD: usize = 17;

/// What a head may take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line, its CR LF apart; RFC 9112 3 recommends 8,000 at least.
    pub line_bytes: u32,
    /// Bytes of the whole head, up to the last of the empty line that ends it.
    pub head_bytes: u32,
    /// Fields.
    pub fields: u16,
}

impl Default for Limits {
    /// 8 KiB, 16 KiB and 100, as Apache and nginx have them or nearly so.
    fn default() -> Self {
        Self {
            line_bytes: 8_192,
            head_bytes: 16_384,
            fields: 100,
        }
    }
}

/// How the end of a request's body is known (RFC 9112 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
}

impl Framing {
    /// A reader before the body; none where there is none.
    #[must_use]
    pub fn reader(self) -> Option<BodyReader> {
        match self {
            Self::None => None,
            Self::Length(length) => Some(BodyReader::Length(length)),
            Self::Chunked => Some(BodyReader::Chunked(Decoder::new())),
        }
    }
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    /// Its method, a token, as sent: methods are case-sensitive.
    pub method: &'a [u8],
    /// Its target, as sent: visible ASCII.
    pub target: &'a [u8],
    /// Its version; 1.1 for anything between 1.1 and 2.
    pub version: Version,
    /// How its body ends.
    pub framing: Framing,
    /// Whether the client wants the connection to stay.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Bytes of the head.
    pub bytes: usize,
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// Its fields in the order sent.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields(self.fields)
    }

    /// The value of the first field of that name, in any case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut fields = self.fields();
        fields.find_map(|(given, value)| given.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
    }

    /// The path and query of the target: all of it in origin form, what follows the authority in absolute form.
    #[must_use]
    pub fn path_and_query(&self) -> &'a [u8] {
        match absolute(self.target) {
            Some((_, b"")) => b"/",
            Some((_, rest)) => rest,
            None => self.target,
        }
    }
}

/// Takes a head off the front of `input`; `None` when it is not complete.
///
/// Empty lines before it are passed over, as RFC 9112 2.2 asks.
///
/// # Errors
/// When the bytes cannot become a request; see [`RequestError`].
pub fn read<'a>(input: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, RequestError> {
    let mut at = 0;
    while input[at..].starts_with(b"\r\n") {
        at += 2;
        if at > limits.line_bytes as usize {
            return Err(RequestError::LineTooLong(limits.line_bytes));
        }
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
        draft.fields += 1;
        if draft.fields > limits.fields {
            return Err(RequestError::TooManyFields(limits.fields));
        }
        let (name, value) = field::split(line)?;
        draft.take(name, value)?;
    }
}

/// The line at `at`, without its end; `None` when it has not ended. It may have `most` bytes, its end apart.
fn next_line(
    input: &[u8],
    at: usize,
    most: usize,
    too_long: RequestError,
) -> Result<Option<&[u8]>, RequestError> {
    let rest = &input[at..];
    let Some(end) = memchr(b'\n', rest) else {
        // A CR that is last may yet be followed by its LF; one before that never.
        let whole = rest.strip_suffix(b"\r").unwrap_or(rest);
        return match memchr(b'\r', whole) {
            Some(_) => Err(RequestError::LineEnd),
            None if whole.len() > most => Err(too_long),
            None => Ok(None),
        };
    };
    match rest[..end].strip_suffix(b"\r") {
        Some(line) if line.len() > most => Err(too_long),
        // A CR within a field's value is refused as a control character, one within a request line as no target's.
        Some(line) => Ok(Some(line)),
        None => Err(RequestError::LineEnd),
    }
}

/// Refuses the beginning of a request line that none can have: another protocol's, such as the first bytes of TLS.
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

/// The forms of RFC 9112 3.2: `/path`, `http://authority/path`; `authority` for CONNECT alone, `*` for OPTIONS alone.
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

/// What the fields read so far said.
#[derive(Default)]
struct Draft {
    fields: u16,
    length: Option<u64>,
    chunked: bool,
    host: bool,
    close: bool,
    stay: bool,
    expects_continue: bool,
}

impl Draft {
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        // By length first: almost every field is none of these.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                // An empty one is valid where the target has no authority (RFC 9112 3.2).
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
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close |= field::lists(value, b"close");
                self.stay |= field::lists(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.length.is_some() {
                    return Err(RequestError::ContentLength);
                }
                self.length = Some(field::length(value).ok_or(RequestError::ContentLength)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.coding(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Only `chunked` once and alone is taken: anything after it leaves the end unknown, anything before it would have to
    /// be undone.
    fn coding(&mut self, value: &[u8]) -> Result<(), RequestError> {
        for member in value.split(|byte| *byte == b',') {
            let member = field::trim(member);
            if self.chunked || member.is_empty() {
                return Err(RequestError::TransferEncoding);
            }
            if !member.eq_ignore_ascii_case(b"chunked") {
                return Err(RequestError::UnknownCoding);
            }
            self.chunked = true;
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
        let framing = match (self.chunked, self.length) {
            (true, Some(_)) => return Err(RequestError::TwoFramings),
            (true, None) if !new => return Err(RequestError::TransferEncoding),
            (true, None) => Framing::Chunked,
            (false, None | Some(0)) => Framing::None,
            (false, Some(length)) => Framing::Length(length),
        };
        Ok(Head {
            method,
            target,
            version,
            framing,
            keep_alive: (new || self.stay) && !self.close,
            // Of HTTP/1.0 it is to be ignored (RFC 9110 10.1.1), and without a body there is nothing to wait for.
            expects_continue: self.expects_continue && new && framing != Framing::None,
            bytes,
            fields,
        })
    }
}

#[cfg(test)]
mod tests;
