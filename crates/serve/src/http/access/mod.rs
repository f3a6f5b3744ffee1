//! The access log: one line per response, in the Combined Log Format with the time taken at the end.
//!
//! In: heads, statuses and bytes of responses, from each worker. Out: lines, which every worker buffers and hands over
//! between turns, and one thread writes. A worker never waits for the file: lines that do not fit its buffer are
//! dropped and counted.

mod lines;
mod writer;

pub use writer::{AccessLogError, AccessLogged};

pub(super) use lines::{Client, Lines};
pub(super) use writer::AccessLog;
