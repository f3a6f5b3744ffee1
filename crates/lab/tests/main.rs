//! The integration tests of this room, in one program.

mod documents;
mod simulate;
