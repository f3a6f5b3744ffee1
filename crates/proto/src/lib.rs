//! Protocols as state machines over byte slices: take bytes and, if required, `now`; return items and bytes. No
//! sockets, no clock, no unsafe code.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod http;
pub mod mark;
pub mod memcached;
mod payload;
pub mod probe;
