//! The integration tests of this room, in one program.

mod common;
mod locks;
mod permission;
mod profile;
mod softnet;
