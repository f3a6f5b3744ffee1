//! `serve udp`: a UDP echo or sink with one pinned worker per bucket, or under one of the other models, for comparison.
//!
//! In: a [`UdpPlan`]. Out: a running [`UdpServer`], whose [`UdpServed`] has datagrams received, answered and dropped
//! per bucket, and from samples the share that reached the correct socket and CPU.

mod admission;
mod answer;
mod bucket;
mod cause;
mod common;
mod counters;
mod describe;
mod error;
mod flows;
mod loop_guard;
pub mod metrics;
mod model;
mod plan;
mod served;
mod server;
mod service;
mod sockets;
mod worker;

pub use cause::DropCause;
pub use error::UdpError;
pub use model::{Answers, Mode, Model};
pub use plan::UdpPlan;
pub use served::{BucketServed, FlowCount, FlowCounts, UdpServed};
pub use server::UdpServer;
