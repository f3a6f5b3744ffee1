//! The integration tests of this crate, in one program.

mod any_bytes;
#[path = "common/any_capture.rs"]
mod any_capture;
#[path = "common/any_spec.rs"]
mod any_spec;
mod capture_files;
mod captures;
mod faults;
mod formats;
mod loss;
mod software_rss;
mod suite;
