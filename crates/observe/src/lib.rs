//! CPU profiles and kernel lock waits during a measurement.
//!
//! Input: the CPUs or the process to watch, and a span from `start` to `finish`. Output: serialisable data in the
//! columns of the FreeBSD posts: the functions of `pmcstat` ([`profile`]), the lock table of `LOCK_PROFILING`
//! ([`locks`]), the workstreams of `netstat -Q` ([`softnet`]).
//!
//! Nothing is changed on the machine. If the kernel forbids observation, [`ObserveError`] names what to allow, and the
//! measurement can continue without it.
#![forbid(unsafe_code)]

pub mod locks;
pub mod misses;
pub mod profile;
pub mod softnet;
pub mod traffic;

mod error;
mod perf;
mod symbols;

pub use error::ObserveError;

/// The example in the README, held to what compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
