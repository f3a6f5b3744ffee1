//! `serve tcp`: a sink, a source or an echo of bytes, with one pinned worker and one listener a bucket.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpServer`], whose [`TcpServed`] tells per bucket what the receiver saw: bytes,
//! segments out of order, connections that stood still.

mod bucket;
mod counters;
mod plan;
mod served;
mod server;

pub use plan::{SOURCE_WRITE_BYTES, TcpMode, TcpPlan, TcpServeError, UnknownTcpMode};
pub use served::{BucketTcp, TcpServed};
pub use server::TcpServer;
