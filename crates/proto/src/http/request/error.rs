//! Why a request is invalid, and the matching status.

use crate::http::HeadError;
use thiserror::Error;

/// Why a request is rejected. The connection cannot be reused after any of these, because the end of the request is
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A line ends with LF only, or contains a CR without LF (RFC 9112 2.2).
    #[error("a line of the head does not end with CR LF")]
    LineEnd,
    /// Not a method, a target and a version, separated by single spaces (RFC 9112 3).
    #[error("the request line is not METHOD TARGET HTTP/1.x")]
    RequestLine,
    /// A target with invalid characters, or of a form that the method does not allow (RFC 9112 3.2).
    #[error("the request target is not valid")]
    Target,
    /// The request line exceeds the limit.
    #[error("the request line is longer than {0} bytes")]
    LineTooLong(u32),
    /// A method longer than any registered one.
    #[error("the method is longer than any known one")]
    MethodTooLong,
    /// A version other than 1.x.
    #[error("the version is not HTTP/1.x")]
    Version,
    /// Invalid fields.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The head exceeds the limit.
    #[error("the head is longer than {0} bytes")]
    HeadTooLong(u32),
    /// `Host` is missing, repeated or invalid (RFC 9112 3.2).
    #[error("HTTP/1.1 requires exactly one valid Host field")]
    Host,
    /// An expectation other than 100-continue (RFC 9110 10.1.1).
    #[error("no expectation but 100-continue is known")]
    Expectation,
}

impl RequestError {
    /// The status of the error response.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::LineTooLong(_) => 414,
            Self::HeadTooLong(_) | Self::Head(HeadError::TooManyFields(_)) => 431,
            Self::Expectation => 417,
            Self::MethodTooLong | Self::Head(HeadError::UnknownCoding) => 501,
            Self::Version => 505,
            _ => 400,
        }
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LineEnd => "line_end",
            Self::RequestLine => "request_line",
            Self::Target => "target",
            Self::LineTooLong(_) => "line_too_long",
            Self::MethodTooLong => "method_too_long",
            Self::Version => "version",
            Self::Head(error) => error.name(),
            Self::HeadTooLong(_) => "head_too_long",
            Self::Host => "host",
            Self::Expectation => "expectation",
        }
    }
}
