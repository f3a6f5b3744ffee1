//! `lab engines`: finds the fastest way to hash and the fastest way to send and receive datagrams on this machine.
//!
//! In: a [`Plan`], the ways to compare, and a test bed. Out: [`EnginesReport`], which compares every way with its
//! reference, measured in the same rounds: the sliding-window oracle for hashes, one `recvfrom` and one `sendto` per
//! datagram for datagrams.

mod document;
mod hashes;
mod page;
mod run;
mod ways;

pub use document::{EnginesReport, SCHEMA, ToeplitzTrial, ToeplitzWay, UdpTrial};
pub use run::{Comparison, OUTSTANDING, PAYLOAD_BYTES};
pub use ways::{BASIC, LeftOut, ORACLE, Plan, UdpWay};
