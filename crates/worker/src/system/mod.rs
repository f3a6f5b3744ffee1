//! Safe functions for system calls that neither `nix` nor `socket2` provides in the form that the engines need.
//!
//! This folder and `engine/uring/ring.rs` contain all unsafe code of the crate.

pub(crate) mod address;
pub(crate) mod descriptor;
pub(crate) mod foreign;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod option;
pub(crate) mod placement;
pub(crate) mod poll;
pub(crate) mod signal;
pub(crate) mod stream;
