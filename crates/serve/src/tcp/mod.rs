//! `serve tcp`: a sink, a source or an echo of bytes, with one pinned worker and one listener a bucket.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpServer`], whose [`TcpServed`] holds per bucket what the receiver saw: bytes,
//! segments out of order, connections that stood still.

mod bucket;
mod plan;
mod protocol;

pub use plan::{SOURCE_WRITE_BYTES, TcpMode, TcpPlan};
pub use protocol::{BucketTcp, TcpOwn, TcpServed, TcpServer};
