//! The integration tests of this crate, in one program.

mod http_drain;
mod resolve;
