//! The integration tests of this crate, in one program.

mod adopt;
mod group;
mod locality;
mod outgoing;
mod received;
mod simulated;
mod steered;
mod suite;
