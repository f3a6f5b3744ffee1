//! Tests of the stages.

mod common;
mod fragmenting;
mod reassembly;
mod tunnels;
mod work;
