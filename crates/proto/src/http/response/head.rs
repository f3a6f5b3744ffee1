//! Parses the head of a response line by line: takes a growing buffer, keeps a [`Draft`] of the result so far, returns
//! a [`Head`] at the empty line.

use super::{Framing, Limits, ResponseError};
use crate::http::field;
use memchr::memchr;

/// HTTP version of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: connections close by default.
    Http10,
    /// HTTP/1.1: connections stay open by default.
    #[default]
    Http11,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Its version.
    pub version: Version,
    /// Status code, 200 to 999.
    pub status: u16,
    /// Reason phrase, often empty.
    pub reason: &'a [u8],
    /// Framing of its body.
    pub framing: Framing,
    /// Value of `Content-Length`, if present; also in a response to HEAD, which has no body.
    pub content_length: Option<u64>,
    /// Whether the connection may be reused after the response.
    pub keep_alive: bool,
    /// Length of the head in bytes.
    pub bytes: usize,
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// Fields in the order sent.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields(self.fields)
    }
}

/// The fields of a head: names and values.
#[derive(Debug, Clone)]
pub struct Fields<'a>(pub(in crate::http) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr(b'\n', self.0)?;
        let line = self.0[..end].strip_suffix(b"\r")?;
        self.0 = &self.0[end + 1..];
        field::split(line).ok()
    }
}

/// State derived from the lines parsed so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    content_length: Option<u64>,
    /// Bytes of complete lines parsed.
    length: u32,
    /// Bytes of the status line including its end; 0 before it was parsed.
    status_line: u32,
    fields: u16,
    status: u16,
    version: Version,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Draft {
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes of the whole head, once complete.
    pub(super) fn length(&self) -> usize {
        self.length as usize
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Parses the complete lines; returns whether the last one was the empty line. The first `searched` bytes have been
    /// searched before.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        searched: usize,
        limits: Limits,
    ) -> Result<bool, ResponseError> {
        let limit = limits.head_bytes as usize;
        let mut search_from = searched.max(self.length());
        while let Some(found) = memchr(b'\n', &bytes[search_from..]) {
            let start = self.length();
            let end = search_from + found;
            if end >= limit {
                return Err(ResponseError::HeadTooLarge);
            }
            let line = bytes[start..end].strip_suffix(b"\r");
            let line = line.ok_or(ResponseError::BareLineFeed)?;
            self.length = end as u32 + 1;
            search_from = end + 1;
            if self.status_line == 0 {
                self.read_status(line)?;
            } else if line.is_empty() {
                return Ok(true);
            } else {
                self.read_field(line, limits)?;
            }
        }
        if bytes.len() >= limit {
            return Err(ResponseError::HeadTooLarge);
        }
        Ok(false)
    }

    /// `HTTP/1.1 200 OK`; space and reason may be missing, as some servers send it.
    fn read_status(&mut self, line: &[u8]) -> Result<(), ResponseError> {
        self.version = match line.strip_prefix(b"HTTP/1.").and_then(<[u8]>::first) {
            Some(b'0') => Version::Http10,
            Some(b'1') => Version::Http11,
            _ => return Err(ResponseError::Version),
        };
        let (status, reason) = match &line[8..] {
            [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
                let digit = |byte: &u8| u16::from(byte - b'0');
                (digit(a) * 100 + digit(b) * 10 + digit(c), rest)
            }
            _ => return Err(ResponseError::Status),
        };
        match reason {
            [] => {}
            [b' ', reason @ ..] if field::is_text(reason) => {}
            [b'0'..=b'9', ..] => return Err(ResponseError::Status),
            _ => return Err(ResponseError::Reason),
        }
        self.status = status;
        self.status_line = self.length;
        Ok(())
    }

    fn read_field(&mut self, line: &[u8], limits: Limits) -> Result<(), ResponseError> {
        let (name, value) = field::split(line)?;
        self.fields += 1;
        if self.fields > limits.fields {
            return Err(ResponseError::TooManyFields);
        }
        // Three names determine the framing; their lengths exclude almost every other.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close |= field::lists(value, b"close");
                self.keep_alive |= field::lists(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.content_length.is_some() {
                    return Err(ResponseError::ContentLengthTwice);
                }
                self.content_length = Some(field::length(value).ok_or(ResponseError::ContentLength)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || self.version == Version::Http10 || !value.eq_ignore_ascii_case(b"chunked")
                {
                    return Err(ResponseError::TransferCoding);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// RFC 9112 6.3, in the same order.
    pub(super) fn framing(&self, to_head: bool) -> Result<Framing, ResponseError> {
        if self.chunked && self.content_length.is_some() {
            return Err(ResponseError::LengthAndCoding);
        }
        Ok(match self.content_length {
            _ if to_head || matches!(self.status, 204 | 304) => Framing::Nothing,
            _ if self.chunked => Framing::Chunked,
            Some(0) => Framing::Nothing,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        })
    }

    /// The head in `bytes`, which end with it.
    pub(super) fn head<'a>(&self, bytes: &'a [u8], framing: Framing) -> Head<'a> {
        let line = &bytes[..self.status_line as usize - 2];
        let persistent = self.version == Version::Http11 || self.keep_alive;
        Head {
            version: self.version,
            status: self.status,
            reason: line.get(13..).unwrap_or_default(),
            framing,
            content_length: self.content_length,
            keep_alive: persistent && !self.close && framing != Framing::UntilClose,
            bytes: bytes.len(),
            fields: &bytes[self.status_line as usize..],
        }
    }
}
