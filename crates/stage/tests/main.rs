//! Tests of the stages.

mod common;
mod dispatch;
mod fragmenting;
mod reassembly;
mod tunnels;
mod work;
