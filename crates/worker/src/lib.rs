//! One pinned thread per bucket: engines, per-bucket socket groups, counters.
//!
//! A [`crew`] is the threads of one server or generator; [`spawn`] starts one thread on one CPU.
//! [`run_engine`](engine::run_engine) builds the engine that moves its datagrams. [`group::udp`] creates one socket per
//! bucket on one address, [`adopt`] duplicates those of a running server, [`program`] steers either and [`steered`]
//! changes their table at run time, [`rebalancing`] by the loads of its entries. [`locality`] observes on which CPU the
//! kernel received, [`received`] reads frames with the device's hash and queue, [`outgoing`] connects from ports whose
//! replies reach the worker's bucket, [`sampling`] selects what is looked at, [`mailbox`] passes messages from thread to
//! thread, [`memory`] reports the node of the buffers. [`tls`] is the TLS of connections. See the README for an example.

#![deny(unsafe_code)]

pub mod adopt;
pub mod crew;
pub mod engine;
pub mod group;
pub mod locality;
pub mod mailbox;
pub mod memory;
pub mod outgoing;
pub mod program;
pub mod rebalancing;
pub mod received;
pub mod sampling;
mod spawn;
pub mod steered;
#[allow(unsafe_code)]
mod system;
mod time;
pub mod timers;
pub mod tls;
mod watch;
pub mod worker_memory;

pub use corelane_measure::counter::Counter;
pub use crossbeam_utils::CachePadded;
pub use spawn::{SpawnError, Worker, WorkerSettings, spawn, spawn_with};
pub use time::Time;
pub use watch::WatchError;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
