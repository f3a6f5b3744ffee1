//! What this machine is, what would spoil a measurement on it, and the network namespaces tests run in.
//!
//! What enters: the kernel's own files under `/proc` and `/sys`, netlink, the names of devices.
//! What leaves: facts with their source ([`cpus`], [`memory`], [`conditions`], [`counters`], [`ethtool`], and all of them
//! together in the [`inventory`]), where a flow's packets go ([`explain`], [`sockets`]), a thread bound to its CPU
//! ([`pin`]), what was started ended with all it started ([`processes`]), what this process cost ([`usage`]), a kernel file
//! system of one's own ([`mounts`]), and a test bed of two namespaces joined by a veth pair ([`bed`]).
//!
//! It is the only room that changes the machine. What it makes lives in unnamed namespaces that end with the process;
//! outside them nothing is written, but in a namespace that the user calls the run's own, where it is put back.
#![deny(unsafe_code)]

pub mod bed;
pub mod conditions;
pub mod counters;
pub mod cpus;
pub mod ethtool;
pub mod explain;
pub mod inventory;
pub mod limits;
pub mod memory;
pub mod mounts;
pub mod pages;
pub mod pin;
pub mod processes;
pub mod sockets;
pub mod usage;

mod error;
mod fact;
mod netlink;
mod tree;

pub use bed::transmit_queues;
pub use error::HostError;

/// Keeps the example of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
