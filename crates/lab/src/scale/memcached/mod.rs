//! `lab scale memcached`: measures how the requests of a cache scale with active buckets, and finds the limit.
//!
//! In: a [`MemcachedScalePlan`]. Out: a `corelane/scale-memcached/1` report. Over UDP, datagrams are counted at five places; over TCP,
//! requests at both ends. Every trial has a server of its own, in which all keys are stored first. Another server may run beside ours
//! in the same rounds. Control: every client on the wrong CPU, so that the network path of a bucket and its part of the store are on
//! different ones.

mod document;
mod metrics;
mod page;
mod plan;
mod trial;
mod verdict;

pub use document::{Caches, MemcachedScaleReport, Server, Shape, Step, Transport};
pub use metrics::{METRICS, Trial};
pub use plan::{MemcachedScalePlan, MemcachedScaleRequest};
pub use trial::MemcachedScale;
