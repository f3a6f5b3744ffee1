//! Facts about this machine, conditions that invalidate a measurement, and the network namespaces that tests run in.
//!
//! Input: the kernel's files under `/proc` and `/sys`, netlink, device names. Output: facts with their source
//! ([`cpus`], [`memory`], [`conditions`], [`counters`], [`ethtool`], all combined in the [`inventory`]), the path of a
//! flow's packets ([`explain`], [`sockets`]), what names static programs resolve ([`resolver`]), the devices of IPv6 zones
//! ([`zones`]), CPU pinning ([`pin`]), termination of started processes and their
//! descendants ([`processes`]), the resource usage of this process ([`usage`]), private mounts of kernel file systems
//! ([`mounts`]), and a test bed of two namespaces joined by a veth pair ([`bed`]).
//!
//! This is the only crate that changes the machine. Everything it creates is in unnamed namespaces that end with the
//! process. The one exception is a namespace that the user declares to be the run's own; its changes are reverted.
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
pub mod published;
#[allow(
    unsafe_code,
    reason = "a function of glibc that sets a choice of the resolver"
)]
pub mod resolver;
pub mod sockets;
pub mod usage;
pub mod zones;

mod cgroup;
mod error;
mod fact;
mod netlink;
mod tree;

pub use bed::transmit_queues;
pub use error::HostError;

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
