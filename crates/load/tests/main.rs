//! The integration tests of this room, in one program.

mod http_drain;
mod resolve;
