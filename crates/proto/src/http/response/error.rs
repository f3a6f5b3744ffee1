//! Why bytes are no answer.

use crate::http::chunked::ChunkedError;
use crate::http::field::FieldError;
use thiserror::Error;

/// Why what a server sent is no HTTP/1.1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// The first line does not start with `HTTP/1.0` or `HTTP/1.1`.
    #[error("the answer does not start with HTTP/1.1 or HTTP/1.0")]
    Version,
    /// No three digits from 100 up after the version.
    #[error("the status is no number of three digits from 100 up")]
    Status,
    /// Control characters in the reason, or something else than a space before it.
    #[error("the reason phrase has control characters")]
    Reason,
    /// A line ends with LF alone.
    #[error("a line of the head ends with LF alone")]
    BareLineFeed,
    /// A line of the head is no field.
    #[error("{0}")]
    Field(#[from] FieldError),
    /// The head is longer than the limit.
    #[error("the head is longer than the limit")]
    HeadTooLarge,
    /// More field lines than the limit.
    #[error("the head has more fields than the limit")]
    TooManyFields,
    /// More informational answers than the limit.
    #[error("more informational answers (1xx) than the limit")]
    TooManyInformational,
    /// A content length that is no decimal number of 64 bits.
    #[error("Content-Length is no number")]
    ContentLength,
    /// Two content lengths.
    #[error("Content-Length is given twice")]
    ContentLengthTwice,
    /// A content length beside a transfer coding (RFC 9112 6.3: might be an attempt at response splitting).
    #[error("Content-Length beside Transfer-Encoding")]
    LengthAndCoding,
    /// A transfer coding other than chunked alone, or in HTTP/1.0 (RFC 9112 6.1).
    #[error("a transfer coding other than chunked")]
    TransferCoding,
    /// 101 Switching Protocols, which nobody asked for.
    #[error("the server switches protocols unasked (101)")]
    Upgrade,
    /// A chunked body that is none.
    #[error("{0}")]
    Chunked(#[from] ChunkedError),
    /// The connection ended within a head.
    #[error("the connection ended within the head of an answer")]
    ClosedInHead,
    /// The connection ended before the body was complete.
    #[error("the connection ended before the body was complete")]
    ClosedInBody,
}
