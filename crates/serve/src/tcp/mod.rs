//! `serve tcp`: a sink, source or echo of bytes, with one pinned worker and one listener per bucket.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpServer`], whose [`TcpServed`] has the receiver's counters per bucket: bytes,
//! segments out of order, stalled connections.

mod bucket;
pub mod metrics;
mod plan;
mod protocol;

pub use plan::{SOURCE_WRITE_BYTES, TcpMode, TcpPlan};
pub use protocol::{BucketTcp, TcpOwn, TcpServed, TcpServer};
