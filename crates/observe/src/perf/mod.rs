//! The kernel's perf events: opening them, the rings they write to, and the thread that reads the rings.
//!
//! Input: an event description and where it counts. Output: the kernel's records, in batches, and the number of lost
//! records.

mod chain;
mod collector;
mod open;
mod recorder;
pub(crate) mod tracepoint;

pub(crate) use chain::{Frame, frames};
pub(crate) use collector::{Collector, nanoseconds};
pub(crate) use open::{Event, Privilege, open};
pub(crate) use recorder::{Recorder, Sink, lost_note, record};
