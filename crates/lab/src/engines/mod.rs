//! `lab engines`: which way to hash and which way to move datagrams is best on this machine.
//!
//! In: [`Request`], the ways that are to be compared, and a test bed. Out: [`EnginesReport`], in which every way stands
//! beside its reference, measured in the same rounds: the sliding-window oracle for hashes, one `recvfrom` and one
//! `sendto` a datagram for datagrams.
//!
//! [`EnginesReport`]: crate::documents::engines::EnginesReport

mod hashes;
mod run;
mod udp;
mod ways;

pub use run::{Comparison, EnginesError};
pub use udp::PAYLOAD_BYTES;
pub use ways::{HashWay, Request, UdpWay, UnknownWay, WayName};
