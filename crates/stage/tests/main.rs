//! Tests of the stages.

mod coalescing;
mod common;
mod dispatch;
mod explain;
mod fragmenting;
mod reassembly;
mod tunnels;
mod work;
