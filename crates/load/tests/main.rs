//! The integration tests of this crate, in one program.

mod http_drain;
mod http_phases;
mod resolve;
mod targets;
mod udp_opening;
