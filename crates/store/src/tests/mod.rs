//! Tests of the store as a whole.

mod access;
mod invariants;
mod model;
mod sizes;
