//! `http`: HTTP/1.1 as state machines over byte slices (RFC 9110, RFC 9112).
//!
//! In: bytes in any segments. Out: heads, body slices, ends, or a named error; and requests as bytes. Framing is
//! strict: errors according to RFC 9112, and anything that two readers could frame differently, are rejected. Only the
//! parser of responses can be made to take, and name, what other clients take ([`response::Deviation`]).

pub mod answer;
pub mod chunked;
pub mod date;
pub mod field;
mod head;
pub mod outgoing;
pub mod pattern;
pub mod request;
pub mod response;
pub mod select;
mod tolerance;
pub mod url;

pub use head::HeadError;
