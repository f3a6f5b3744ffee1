//! What the machine reaches in a time. These tests run one at a time, and are repeated while other programs disturb them.

#[allow(dead_code, reason = "helpers of the other test program")]
#[path = "../common/mod.rs"]
mod common;
mod engines;
mod scale;
