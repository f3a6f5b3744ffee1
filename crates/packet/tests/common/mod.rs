//! What the tests of this room share: frames put together by hand, and what must hold of any bytes.

pub mod built;
pub mod frames;
pub mod invariants;
