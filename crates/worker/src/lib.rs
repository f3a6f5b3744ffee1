//! One pinned thread a bucket: engines, per-bucket socket groups, counters.
//!
//! [`spawn`] starts a thread on one CPU; there [`run_engine`](engine::run_engine) builds the engine that moves its
//! datagrams; [`group::udp`] gives each bucket its socket of one address; [`locality`] observes on which CPU the kernel
//! received, [`memory`] on which node the buffers lie. See the room's README for an example.

#![deny(unsafe_code)]

mod counter;
pub mod engine;
pub mod group;
pub mod locality;
pub mod memory;
mod spawn;
#[allow(unsafe_code)]
mod system;
mod time;

pub use counter::Counter;
pub use crossbeam_utils::CachePadded;
pub use spawn::{SpawnError, Worker, WorkerSettings, spawn, spawn_with};
pub use time::Time;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
