//! The integration tests of this crate, in one program.

mod common;
mod locks;
mod permission;
mod profile;
mod softnet;
