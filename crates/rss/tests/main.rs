//! The integration tests of this crate, in one program.

mod balance;
mod common;
mod flows;
mod infer;
mod infer_table;
mod properties;
mod real_sockets;
mod vectors;
mod ways;
