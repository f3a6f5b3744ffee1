//! Servers with one pinned worker per bucket: take a plan, return counters per bucket.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod bridge;
mod check;
mod connections;
pub mod endpoint;
mod handshakes;
pub mod http;
mod listening;
mod live_steering;
mod local_listener;
pub mod memcached;
pub mod metrics;
pub mod packets;
mod reflection;
mod server;
mod service;
mod shared;
mod streams;
pub mod tcp;
pub mod udp;

pub use handshakes::HandshakeCounts;
pub use listening::{SocketPlan, SteeringPlan};
pub use server::{ServeError, Server, TableError};
pub use streams::{ConnectionCounts, Listening, StreamServer, StreamsServed};
