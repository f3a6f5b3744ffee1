//! What the integration tests share: a classic BPF machine, vectors, random steerings and tuples, and packets that carry a tuple.
#![allow(dead_code, reason = "each test crate uses its part")]

pub mod interpreter;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod packet;
pub mod random;
#[cfg(target_os = "linux")]
pub mod sockets;
pub mod vectors;
