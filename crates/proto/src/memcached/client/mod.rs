//! The client's side of the text and the meta protocol: writes requests, and parses answers.
//!
//! In: keys and values, as bytes or as what writes them ([`Content`]); the bytes of a connection. Out: the bytes of requests;
//! [`Answer`]s, one line with its data block at a time, or what is [`Wrong`] with them. Which answers a request may have, and
//! whether a value is the right one, is decided by the caller.

mod answer;
mod request;

pub use answer::{Answer, LONGEST_LINE, Meta, Parsed, Wrong, parse};
pub use request::{Content, Flag, Get, NO_OPERATION, Store, decr, delete, get, incr, meta, store, touch};

#[cfg(test)]
mod tests;
