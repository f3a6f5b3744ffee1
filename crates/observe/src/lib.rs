//! Where the CPU's time went, and which kernel locks were waited for, while something was measured.
//!
//! What enters: the CPUs or the process to watch, and a span that begins with `start` and ends with `finish`.
//! What leaves: plain data that serialises, in the columns that the FreeBSD posts read: the functions of `pmcstat`
//! ([`profile`]), the lock table of `LOCK_PROFILING` ([`locks`]), the workstreams of `netstat -Q` ([`softnet`]).
//!
//! Nothing is changed on the machine. Where the kernel forbids observation, [`ObserveError`] says what to allow, and the
//! measurement can go on without.
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
