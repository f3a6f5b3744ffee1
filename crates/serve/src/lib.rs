//! Servers with one pinned worker a bucket: plans come in, counts per bucket go out.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod bridge;
mod causes;
pub mod http;
mod listeners;
pub mod packets;
mod server;
mod service;
pub mod tcp;
pub mod udp;

pub use listeners::ListenError;
pub use server::{Server, TableError};
