//! `lab scale http` and `lab scale tcp`: measure how requests and bytes scale with active buckets, and find the limit.
//!
//! In: a [`StreamsPlan`]. Out: a `corelane/scale-http/1` or `corelane/scale-tcp/1` report. Every trial has fresh
//! namespaces, a fresh server, and fresh clients, so no connection of an earlier trial is left. Steps are repeated and
//! interleaved. Controls: the kernel's own hash, and every client on the wrong CPU. Any other server can be measured
//! instead of ours.

mod account;
pub mod document;
mod ends;
mod memory;
pub mod metrics;
mod page;
mod peers;
mod plan;
pub mod protocol;
mod trial;
mod verdict;

pub use document::{Protocol, Selection, Server, StreamsReport, Traffic};
pub use plan::{StreamsPlan, StreamsRequest, SubjectRequest};
pub use trial::Streams;
