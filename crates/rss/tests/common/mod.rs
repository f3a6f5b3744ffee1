//! Helpers shared by the integration tests: a BPF interpreter, vectors, random steerings and tuples, and packets with a
//! tuple.
#![allow(dead_code, reason = "each test crate uses its part")]

pub mod interpreter;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod packet;
pub mod random;
#[cfg(target_os = "linux")]
pub mod sockets;
pub mod vectors;
