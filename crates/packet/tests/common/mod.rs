//! What the tests of this room share: frames put together by hand, and what must hold of any bytes.

#![allow(dead_code, reason = "each test uses its part")]

pub mod built;
pub mod frames;
pub mod invariants;
