//! Helpers shared by the tests of this crate: frames built by hand, and properties for arbitrary bytes.

pub mod built;
pub mod frames;
pub mod invariants;
