//! The receiver of generated packets: what came of each stream, in which order, how late, and what did not.
//!
//! In: a [`ReceivePlan`]. Out: a running [`Receiver`], and at its end a [`Received`]. `account` reads the marks of
//! [`corelane_proto::mark`].

mod account;
mod plan;
mod received;
mod receiver;

pub use plan::ReceivePlan;
pub use received::{Received, StreamReceived};
pub use receiver::{ReceiveError, Receiver};
