//! What this machine is, what would spoil a measurement on it, and the network namespaces tests run in.
//!
//! What enters: the kernel's own files under `/proc` and `/sys`, netlink, the names of devices.
//! What leaves: facts with their source ([`cpus`], [`memory`], [`conditions`], [`counters`], [`ethtool`]), a thread bound to its CPU
//! ([`pin`]), and a test bed of two namespaces joined by a veth pair ([`bed`]).
//!
//! It is the only room that changes the machine. What it makes lives in unnamed namespaces that end with the process;
//! outside them nothing is written.
#![forbid(unsafe_code)]

pub mod bed;
pub mod conditions;
pub mod counters;
pub mod cpus;
pub mod ethtool;
pub mod limits;
pub mod memory;
pub mod pin;

mod error;
mod netlink;
mod tree;

pub use error::HostError;

/// Keeps the example of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
