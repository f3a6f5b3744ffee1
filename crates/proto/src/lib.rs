//! Protocols as state machines over byte slices: bytes and, where it matters, `now` come in; items and bytes go out.
//! No sockets, no clock, no unsafe.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod http;
pub mod mark;
mod payload;
pub mod probe;
