//! Runs one command in an emulated machine, which may have hardware that this machine lacks: several memory nodes,
//! devices with queues.
//!
//! In: a [`GuestPlan`] and the parts found by [`GuestParts::find`]. Out: the command's output and exit status
//! ([`GuestOutput`]). [`boot`] is the entry point, and
//! [`boot_unless`] that of a caller that may lose interest. It returns within the plan's limit and leaves nothing behind.

#![forbid(unsafe_code)]

mod archive;
mod boot;
mod error;
mod image;
mod modules;
mod parts;
mod plan;

pub use boot::{GuestOutput, boot, boot_unless};
pub use error::GuestError;
pub use parts::GuestParts;
pub use plan::{GuestFile, GuestPlan};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
