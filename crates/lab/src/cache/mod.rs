//! `lab cache`: how many reads a bounded cache answers, by what it evicts.
//!
//! In: a [`Request`]. Out: [`CacheReport`]: a row per shape of requests and size of the cache, with the hit ratio of each policy over
//! the same requests. The reference is the segmented LRU of memcached. Nothing is timed, so the same request gives the same document.

mod policies;
mod policy;
mod requests;
mod scenario;
mod shapes;

use crate::cases::Cases;

pub use scenario::{CacheReport, Request};

/// A comparison, ready to run.
pub type Cache = Cases<Request>;
