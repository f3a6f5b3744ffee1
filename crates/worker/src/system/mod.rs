//! The system calls that neither `nix` nor `socket2` offers in the shape the engines need, behind safe functions.
//!
//! This folder and `engine/uring/ring.rs` hold all the unsafe code of the room.

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
