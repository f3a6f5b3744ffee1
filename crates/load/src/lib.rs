//! Traffic generators: plans come in; what was sent, what came back, how late and why not, goes out.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod pace;
pub mod pool;
pub mod udp;
