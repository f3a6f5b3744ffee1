//! The access log: a line an answer, in the Combined Log Format with the time taken at the end.
//!
//! In: heads, statuses and bytes of answers, from each worker. Out: lines, which every worker keeps in a buffer of its own
//! and hands over between turns, and one thread writes. A worker never waits for the file: what finds no room in its buffer
//! is dropped and counted.

mod lines;
mod writer;

pub use writer::{AccessLogError, AccessLogged};

pub(super) use lines::Lines;
pub(super) use writer::AccessLog;
