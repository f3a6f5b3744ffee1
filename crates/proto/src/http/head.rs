//! What the heads of requests and responses share: version, fields, and the framing that the fields determine.

use super::chunked::{BodyReader, Decoder};
use super::field::{self, FieldError};
use super::tolerance::{Deviation, Tolerance};
use memchr::memchr;
use thiserror::Error;

/// HTTP version of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: connections close by default.
    Http10,
    /// HTTP/1.1: connections stay open by default.
    #[default]
    Http11,
}

/// The fields of a head: names and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr(b'\n', self.0)?;
        let line = &self.0[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.0 = &self.0[end + 1..];
        field::split(line).ok()
    }
}

/// Framing of a body by the fields of its head (RFC 9112 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    None,
    /// Content-Length in bytes.
    Length(u64),
    /// Chunked coding.
    Chunked,
}

impl Framing {
    /// A reader for the body; `None` without a body.
    #[must_use]
    pub fn reader(self) -> Option<BodyReader> {
        match self {
            Self::None => None,
            Self::Length(length) => Some(BodyReader::Length(length)),
            Self::Chunked => Some(BodyReader::Chunked(Decoder::new())),
        }
    }
}

/// Why the fields of a head are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeadError {
    /// An invalid field line.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// More fields than the limit.
    #[error("the head has more than {0} fields")]
    TooManyFields(u16),
    /// `Content-Length` that is not a number, or is repeated, equal or not (RFC 9112 6.3); if equal ones are taken, unequal.
    #[error("Content-Length is not one number")]
    ContentLength,
    /// `Content-Length` together with `Transfer-Encoding` (RFC 9112 6.1: request smuggling, response splitting).
    #[error("Content-Length and Transfer-Encoding are both given")]
    TwoFramings,
    /// `Transfer-Encoding` whose last coding is not chunked, that has chunked twice, or in HTTP/1.0 (RFC 9112 6.1).
    #[error("the transfer coding leaves the end of the body unknown")]
    TransferEncoding,
    /// An unsupported transfer coding.
    #[error("no transfer coding but chunked is implemented")]
    UnknownCoding,
}

impl HeadError {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Field(_) => "field",
            Self::TooManyFields(_) => "too_many_fields",
            Self::ContentLength => "content_length",
            Self::TwoFramings => "two_framings",
            Self::TransferEncoding => "transfer_encoding",
            Self::UnknownCoding => "unknown_coding",
        }
    }
}

/// What the fields read so far determine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) content_length: Option<u64>,
    pub(super) tolerance: Tolerance,
    fields: u16,
    chunked: bool,
    close: bool,
    stay: bool,
}

impl Draft {
    /// Splits the next field line into name and value, of at most `most` lines.
    pub(super) fn split<'a>(&mut self, line: &'a [u8], most: u16) -> Result<(&'a [u8], &'a [u8]), HeadError> {
        self.fields += 1;
        if self.fields > most {
            return Err(HeadError::TooManyFields(most));
        }
        Ok(field::split(line)?)
    }

    /// Takes a field; ignores those that do not determine the framing.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        // By length first: this excludes almost every field.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close |= field::lists(value, b"close");
                self.stay |= field::lists(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                for member in value.split(|byte| *byte == b',') {
                    let length = field::length(field::trim(member)).ok_or(HeadError::ContentLength)?;
                    if self.content_length.is_some_and(|before| before != length)
                        || self.content_length.is_some() && !self.tolerance.takes(Deviation::RepeatedLength)
                    {
                        return Err(HeadError::ContentLength);
                    }
                    self.content_length = Some(length);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.coding(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Only a single `chunked` is accepted: with a coding after it, the end is unknown, and one before it would have to
    /// be decoded.
    fn coding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for member in value.split(|byte| *byte == b',') {
            let member = field::trim(member);
            if self.chunked || member.is_empty() {
                return Err(HeadError::TransferEncoding);
            }
            if !member.eq_ignore_ascii_case(b"chunked") {
                return Err(HeadError::UnknownCoding);
            }
            self.chunked = true;
        }
        Ok(())
    }

    /// The framing of the complete head.
    pub(super) fn framing(&self, version: Version) -> Result<Framing, HeadError> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(HeadError::TwoFramings),
            (true, None) if version == Version::Http10 => Err(HeadError::TransferEncoding),
            (true, None) => Ok(Framing::Chunked),
            (false, None | Some(0)) => Ok(Framing::None),
            (false, Some(length)) => Ok(Framing::Length(length)),
        }
    }

    /// Whether the sender wants to keep the connection open.
    pub(super) fn keep_alive(&self, version: Version) -> bool {
        (version == Version::Http11 || self.stay) && !self.close
    }
}
