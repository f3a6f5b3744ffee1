//! One pinned thread a bucket: engines, per-bucket socket groups, counters.
//!
//! A [`crew`] is the threads of one server or generator; [`spawn`] starts one thread on one CPU; there [`run_engine`](engine::run_engine) builds the engine that moves its
//! datagrams; [`group::udp`] gives each bucket its socket of one address, [`adopt`] takes those of a server that runs
//! already, [`program`] steers either and [`steered`] lets their table change; [`locality`] observes on which CPU the kernel
//! received, [`received`] reads frames with the hash and queue that a device gave them, [`memory`] on which node the buffers
//! lie; [`tls`] is a session of either end of an encrypted connection. See the room's README for an example.

#![deny(unsafe_code)]

pub mod adopt;
mod counter;
pub mod crew;
pub mod engine;
pub mod group;
pub mod locality;
pub mod memory;
pub mod program;
pub mod received;
mod spawn;
pub mod steered;
#[allow(unsafe_code)]
mod system;
mod time;
pub mod timers;
pub mod tls;
mod watch;
pub mod worker_memory;

pub use counter::Counter;
pub use crossbeam_utils::CachePadded;
pub use spawn::{SpawnError, Worker, WorkerSettings, spawn, spawn_with};
pub use time::Time;
pub use watch::WatchError;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
