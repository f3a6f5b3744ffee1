//! Tests of the store as a whole.

mod access;
mod full;
mod invariants;
mod model;
mod sizes;
