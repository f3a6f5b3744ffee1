//! `serve udp`: a UDP echo or sink with one pinned worker a bucket, or under one of the models that are its rivals.
//!
//! In: a [`UdpPlan`]. Out: a running [`UdpServer`], whose [`UdpServed`] holds per bucket what was seen, answered and
//! dropped, and from samples whether the right socket and the right CPU got it.

mod answer;
mod bucket;
mod describe;
mod flows;
mod mailbox;
mod model;
mod plan;
mod served;
mod server;
mod sockets;
mod worker;

pub use describe::{FlowCount, FlowCounts};
pub use model::{Answers, Mode, Model};
pub use plan::UdpPlan;
pub use served::{BucketServed, UdpServed};
pub use server::UdpServer;
