//! `lab cache`: how many reads a bounded cache answers, by what it evicts.
//!
//! In: a [`Request`]. Out: [`CacheReport`]: a row per shape of requests and size of the cache, with the hit ratio of each policy over
//! the same requests. The reference is the segmented LRU of memcached. Nothing is timed, so the same request gives the same document.

mod document;
mod page;
mod policies;
mod policy;
mod requests;
mod run;
mod shapes;

pub use document::{CacheReport, Request, Row, SCHEMA, Trial};
pub use run::Cache;
