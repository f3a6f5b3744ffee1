//! `serve udp`: a UDP echo or sink with one worker, one socket and one CPU a bucket.
//!
//! In: a [`UdpPlan`]. Out: a running [`UdpServer`], whose [`UdpServed`] tells per bucket what was seen, answered and
//! dropped, and from samples whether the right socket and the right CPU got it.

mod bucket;
mod flows;
mod plan;
mod served;
mod server;

pub use plan::{UdpPlan, UdpServeError};
pub use served::{BucketServed, UdpServed};
pub use server::UdpServer;
