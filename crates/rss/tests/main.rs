//! The integration tests of this room, in one program.

mod balance;
mod common;
mod flows;
mod infer;
mod properties;
mod real_sockets;
mod vectors;
mod ways;
