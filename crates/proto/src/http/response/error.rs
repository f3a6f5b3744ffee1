//! Why a response is invalid.

use crate::http::HeadError;
use crate::http::chunked::ChunkedError;
use thiserror::Error;

/// Why the server's output is not a valid HTTP/1.1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// The first line does not start with `HTTP/1.0` or `HTTP/1.1`.
    #[error("the answer does not start with HTTP/1.1 or HTTP/1.0")]
    Version,
    /// The version is not followed by three digits, 100 or above.
    #[error("the status is no number of three digits from 100 up")]
    Status,
    /// Control characters in the reason, or no space before it.
    #[error("the reason phrase has control characters")]
    Reason,
    /// A line ends with LF only.
    #[error("a line of the head ends with LF alone")]
    BareLineFeed,
    /// Invalid fields.
    #[error("{0}")]
    Head(#[from] HeadError),
    /// The head exceeds the limit.
    #[error("the head is longer than the limit")]
    HeadTooLarge,
    /// More informational responses than the limit.
    #[error("more informational answers (1xx) than the limit")]
    TooManyInformational,
    /// 101 Switching Protocols without a request to upgrade.
    #[error("the server switches protocols unasked (101)")]
    Upgrade,
    /// An invalid chunked body.
    #[error("{0}")]
    Chunked(#[from] ChunkedError),
    /// The connection ended within a head.
    #[error("the connection ended within the head of an answer")]
    ClosedInHead,
    /// The connection ended before the body was complete.
    #[error("the connection ended before the body was complete")]
    ClosedInBody,
}
