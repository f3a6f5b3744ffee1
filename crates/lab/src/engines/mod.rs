//! `lab engines`: finds the fastest way to hash and the fastest way to send and receive datagrams on this machine.
//!
//! In: [`Request`], the ways to compare, and a test bed. Out: [`EnginesReport`], which compares every way with its reference, measured in the same rounds: the sliding-window oracle for hashes, one `recvfrom` and one `sendto` per datagram for datagrams.
//!
mod document;
mod hashes;
pub mod metrics;
mod page;
mod run;
mod udp;
mod ways;

pub use document::{BASIC, EnginesReport, LeftOut, ORACLE, SCHEMA};
pub use document::{ToeplitzTrial, ToeplitzWay, UdpTrial};
pub use run::Comparison;
pub use udp::PAYLOAD_BYTES;
pub use ways::{HashWay, Request, UdpWay, UnknownWay, WayName};
