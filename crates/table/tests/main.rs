//! The integration tests of this crate, in one program.

mod address_map;
mod any_bytes;
#[path = "common/any_list.rs"]
mod any_list;
#[path = "common/any_snapshot.rs"]
mod any_snapshot;
mod common;
mod exact;
mod flow;
mod list;
mod prefix;
