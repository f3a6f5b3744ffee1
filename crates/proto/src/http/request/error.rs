//! Why bytes are no request, and the status that says so.

use crate::http::field::FieldError;
use thiserror::Error;

/// Why a request is refused. After any of these the connection cannot be used for another: where this request ends is
/// not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A line ends with LF alone, or holds a CR that no LF follows (RFC 9112 2.2).
    #[error("a line of the head does not end with CR LF")]
    LineEnd,
    /// Not a method, a target and a version with one space between them (RFC 9112 3).
    #[error("the request line is not METHOD TARGET HTTP/1.x")]
    RequestLine,
    /// A target with characters that none may have, or of a form that the method does not take (RFC 9112 3.2).
    #[error("the request target is not valid")]
    Target,
    /// The request line is longer than allowed.
    #[error("the request line is longer than {0} bytes")]
    LineTooLong(u32),
    /// A method of more bytes than any known one has.
    #[error("the method is longer than any that there is")]
    MethodTooLong,
    /// A version that is not 1.x.
    #[error("the version is not HTTP/1.x")]
    Version,
    /// A field line that is none.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The head is longer than allowed.
    #[error("the head is longer than {0} bytes")]
    HeadTooLong(u32),
    /// More fields than allowed.
    #[error("the head has more than {0} fields")]
    TooManyFields(u16),
    /// `Host` is missing, given twice or not valid (RFC 9112 3.2).
    #[error("HTTP/1.1 takes exactly one valid Host field")]
    Host,
    /// `Content-Length` that is no number, or given twice, equal or not (RFC 9112 6.3).
    #[error("Content-Length is not one number")]
    ContentLength,
    /// `Content-Length` together with `Transfer-Encoding` (RFC 9112 6.1, request smuggling).
    #[error("Content-Length and Transfer-Encoding are both given")]
    TwoFramings,
    /// `Transfer-Encoding` whose last coding is not chunked, chunked twice, or of HTTP/1.0 (RFC 9112 6.1).
    #[error("the transfer coding leaves the end of the body unknown")]
    TransferEncoding,
    /// A transfer coding that is not implemented.
    #[error("no transfer coding but chunked is implemented")]
    UnknownCoding,
    /// An expectation other than 100-continue (RFC 9110 10.1.1).
    #[error("no expectation but 100-continue is known")]
    Expectation,
}

impl RequestError {
    /// The status to answer with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::LineTooLong(_) => 414,
            Self::HeadTooLong(_) | Self::TooManyFields(_) => 431,
            Self::Expectation => 417,
            Self::MethodTooLong | Self::UnknownCoding => 501,
            Self::Version => 505,
            _ => 400,
        }
    }

    /// The name that reports count it under.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LineEnd => "line_end",
            Self::RequestLine => "request_line",
            Self::Target => "target",
            Self::LineTooLong(_) => "line_too_long",
            Self::MethodTooLong => "method_too_long",
            Self::Version => "version",
            Self::Field(_) => "field",
            Self::HeadTooLong(_) => "head_too_long",
            Self::TooManyFields(_) => "too_many_fields",
            Self::Host => "host",
            Self::ContentLength => "content_length",
            Self::TwoFramings => "two_framings",
            Self::TransferEncoding => "transfer_encoding",
            Self::UnknownCoding => "unknown_coding",
            Self::Expectation => "expectation",
        }
    }
}
