//! Traffic generators: take a plan, send traffic, and report what was sent and received, latency, and failures by
//! cause.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod account;
mod alignment;
mod contact;
mod document;
mod failure;
mod generate;
pub mod http;
mod live;
mod lost;
pub mod memcached;
mod metrics;
mod needs;
pub mod pace;
pub mod packets;
pub mod pool;
mod report;
mod sampler;
mod silence;
pub mod sources;
mod standstill;
mod streams;
pub mod tcp;
mod team;
pub mod timeline;
pub mod udp;

pub use alignment::{AlignmentCounts, BucketAlignment};
pub use document::{LoadReport, MergedLoad, RunOutcome};
pub use failure::{Failure, Failures};
pub use generate::{Generator, Moment};
pub use live::{LiveWorker, LiveWorkers, Snapshot, SnapshotSlot};
pub use lost::{HowLost, Lost};
pub use metrics::Running;
pub use needs::{Need, Needs};
pub use sampler::{Observation, Sampler};
pub use streams::{
    Answered, InFlight, LiveStreams, One, OwnCounts, Part, Pipeline, StreamLoad, StreamLoadError,
    StreamLoadReport, StreamPlan, StreamProtocol, StreamStart, Traffic,
};
