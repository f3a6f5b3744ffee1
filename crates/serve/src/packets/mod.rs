//! Receiver of generated packets: per stream, frames received, lost and reordered, and latency.
//!
//! In: a [`ReceivePlan`]. Out: a running [`Receiver`], and at its end a [`Received`]. `account` parses the marks of
//! [`corelane_proto::mark`].

mod account;
mod metrics;
mod plan;
mod received;
mod receiver;

pub use plan::ReceivePlan;
pub use received::{QueueReceived, Received, StreamReceived};
pub use receiver::{ReceiveError, Receiver};
