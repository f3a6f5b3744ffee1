//! `serve memcached`: a cache that speaks the text and the meta protocol of memcached, with one pinned worker per bucket, each
//! of which owns a partition of the items.
//!
//! In: a [`MemcachedPlan`]. Out: a running [`MemcachedServer`], whose [`MemcachedServed`] has the counts per bucket.

mod absent;
mod answers;
mod behaviour;
mod bucket;
mod budget;
mod connection;
mod connections;
mod continuing;
mod control;
mod counters;
mod datagrams;
mod error;
mod exchange;
mod frames;
mod handoffs;
mod items;
mod listing;
pub mod metrics;
mod observed;
mod order;
mod plan;
mod prefixes;
mod protocol;
mod session;
mod shared;
mod sockets;
mod stats;
mod takeover;
mod trains;
mod units;
mod watchers;
mod worker;

pub use behaviour::Behaviour;
pub use error::{LEAST_PARTITION, MemcachedError};
pub use plan::{MemcachedPlan, RemoteReads, UdpSteering, UnixSocket};
pub use protocol::{BucketMemcached, MemcachedOwn, MemcachedServed, MemcachedServer};
