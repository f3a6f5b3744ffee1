//! The policies. All but the store's are of objects alone, without the costs of memory that each would have.

mod lru;
mod objects;
mod s3_fifo;
mod segmented_lru;
mod sieve;
mod store;

use crate::cache::policy::Policy;
use lru::Lru;
use s3_fifo::S3Fifo;
use segmented_lru::SegmentedLru;
use sieve::Sieve;
use store::Store;

/// A policy with a limit in bytes.
pub(super) type Made = fn(u64) -> Box<dyn Policy>;

/// The names of the figures, and the policies.
pub(super) const POLICIES: [(&str, Made); 5] = [
    ("memcached", |limit| Box::new(SegmentedLru::new(limit))),
    ("lru", |limit| Box::new(Lru::new(limit))),
    ("sieve", |limit| Box::new(Sieve::new(limit))),
    ("s3_fifo", |limit| Box::new(S3Fifo::new(limit))),
    ("store", |limit| Box::new(Store::new(limit))),
];
