//! An emulated machine to run one command in, for what this machine does not have: several memory nodes, devices with
//! queues.
//!
//! What enters: a [`GuestPlan`] and the parts found by [`GuestParts::find`]. What leaves: what the command printed and
//! its exit status ([`GuestOutput`]). [`boot`] is all there is; it ends within the plan's limit and leaves nothing
//! behind.

#![forbid(unsafe_code)]

mod archive;
mod boot;
mod error;
mod image;
mod modules;
mod parts;
mod plan;

pub use boot::{GuestOutput, boot};
pub use error::GuestError;
pub use parts::{GuestParts, kernel_directories};
pub use plan::{GuestFile, GuestPlan};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
