//! The integration tests of this crate, in one program.

mod documents;
mod progress;
mod simulate;
