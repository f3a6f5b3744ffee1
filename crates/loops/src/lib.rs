//! Loops that experiments time in their own process. In: inputs, tables, frames in memory, and a duration. Out: counts
//! and times.
//!
//! They are a crate of their own so that they are compiled as a program's own loops would be, with every optimisation,
//! and the rest of an experiment, which runs once per trial, quickly. Therefore nothing here is generic for its users.
#![forbid(unsafe_code)]

pub mod clock;
pub mod flows;
pub mod frames;
pub mod hashing;
pub mod pipeline;
pub mod segments;
pub mod tables;
