//! Tests of the store as a whole.

mod invariants;
mod model;
