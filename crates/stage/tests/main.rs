//! Tests of the stages.

mod common;
mod reassembly;
mod work;
