//! The kernel's perf events: opening them, the rings they write to, and the thread that reads the rings.
//!
//! What enters: an event description and where it counts. What leaves: the kernel's records, in batches, and how many
//! of them were lost.

mod chain;
mod collector;
mod open;
mod permission;
mod recorder;
pub(crate) mod tracepoint;

pub(crate) use chain::{Frame, frames};
pub(crate) use collector::{Collector, nanoseconds};
pub(crate) use open::{Terms, open};
pub(crate) use permission::{Privilege, explain_open};
pub(crate) use recorder::{Recorder, Sink, lost_note, record};
