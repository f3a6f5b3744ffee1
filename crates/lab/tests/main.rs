//! The integration tests of this crate, in one program.

mod any_bytes;
#[path = "common/any_document.rs"]
mod any_document;
mod cache;
mod documents;
mod path;
mod progress;
mod simulate;
