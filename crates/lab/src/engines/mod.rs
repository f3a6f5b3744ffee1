//! `lab engines`: which way to hash and which way to move datagrams is best on this machine.
//!
//! In: [`Request`], the ways that are to be compared, and a test bed. Out: [`EnginesReport`], in which every way stands
//! beside its reference, measured in the same rounds: the sliding-window oracle for hashes, one `recvfrom` and one
//! `sendto` a datagram for datagrams.
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
