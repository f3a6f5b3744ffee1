//! Servers with one pinned worker a bucket: plans come in, counts per bucket go out.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod udp;
