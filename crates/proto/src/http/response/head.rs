//! Parses the head of a response line by line: takes a growing buffer, keeps a [`Draft`] of the result so far, returns
//! a [`Head`] at the empty line.

use super::{Framing, Limits, ResponseError};
use crate::http::field;
use crate::http::head::{self, Fields, Version};
use crate::http::tolerance::{Deviation, Tolerance};
use memchr::memchr;

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
    /// The fields, in order.
    pub fields: Fields<'a>,
}

/// State derived from the lines parsed so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    fields: head::Draft,
    /// Bytes of complete lines parsed.
    length: u32,
    /// 0 before the status line was parsed.
    status: u16,
    version: Version,
}

/// How far a head was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// More bytes are needed.
    Part,
    /// Up to the empty line.
    Whole,
    /// Up to the LF at this place, which does not end the field: the next line continues it.
    Fold(usize),
}

impl Draft {
    pub(super) fn new(tolerant: bool) -> Self {
        let mut draft = Self::default();
        draft.fields.tolerance.tolerant = tolerant;
        draft
    }

    pub(super) fn tolerance(&self) -> Tolerance {
        self.fields.tolerance
    }

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

    /// Parses the complete lines. The first `searched` bytes have been searched before.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        searched: usize,
        limits: Limits,
    ) -> Result<Read, ResponseError> {
        let limit = limits.head_bytes as usize;
        // The last byte again: it may be the end of a field whose next line was missing.
        let mut search_from = searched.saturating_sub(1).max(self.length());
        while let Some(found) = memchr(b'\n', &bytes[search_from..]) {
            let start = self.length();
            let end = search_from + found;
            if end >= limit {
                return Err(ResponseError::HeadTooLarge);
            }
            let line = match bytes[start..end].strip_suffix(b"\r") {
                Some(line) => line,
                None if self.fields.tolerance.takes(Deviation::BareLineFeed) => &bytes[start..end],
                None => return Err(ResponseError::BareLineFeed),
            };
            // Only the next byte shows whether a field ends here.
            if self.fields.tolerance.tolerant && self.status != 0 && !line.is_empty() {
                match bytes.get(end + 1) {
                    None => break,
                    Some(b' ' | b'\t') => return Ok(Read::Fold(end)),
                    Some(_) => {}
                }
            }
            self.length = end as u32 + 1;
            search_from = end + 1;
            if self.status == 0 {
                self.read_status(line)?;
            } else if line.is_empty() {
                return Ok(Read::Whole);
            } else {
                let (name, value) = self.fields.split(line, limits.fields)?;
                self.fields.take(name, value)?;
            }
        }
        if bytes.len() >= limit {
            return Err(ResponseError::HeadTooLarge);
        }
        Ok(Read::Part)
    }

    /// Replaces the line end at `end` with spaces, so that the field goes on (RFC 9112 5.2).
    pub(super) fn unfold(&mut self, bytes: &mut [u8], end: usize) {
        self.fields.tolerance.takes(Deviation::FoldedField);
        bytes[end] = b' ';
        if bytes[end - 1] == b'\r' {
            bytes[end - 1] = b' ';
        }
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
        Ok(())
    }

    /// RFC 9112 6.3, in the same order.
    pub(super) fn framing(&self, to_head: bool) -> Result<Framing, ResponseError> {
        Ok(match self.fields.framing(self.version)? {
            _ if to_head || matches!(self.status, 204 | 304) => Framing::Nothing,
            head::Framing::Chunked => Framing::Chunked,
            head::Framing::Length(length) => Framing::Length(length),
            head::Framing::None if self.fields.content_length.is_some() => Framing::Nothing,
            head::Framing::None => Framing::UntilClose,
        })
    }

    /// The head in `bytes`, which end with it.
    pub(super) fn head<'a>(&self, bytes: &'a [u8], framing: Framing) -> Head<'a> {
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        let (line, fields) = bytes.split_at(end);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Head {
            version: self.version,
            status: self.status,
            reason: line.get(13..).unwrap_or_default(),
            framing,
            content_length: self.fields.content_length,
            keep_alive: self.fields.keep_alive(self.version) && framing != Framing::UntilClose,
            bytes: bytes.len(),
            fields: Fields(fields),
        }
    }
}
