//! The cache laboratory: the experiments of the post "Intel DDIO, LLC cache, buffer alignment, prefetching, shared
//! locks and packet rates", on frames in memory, so that they can be repeated without a network interface.
//!
//! In: a [`Request`]: lists of batches, strides, tables and the rest. Out: the document of `lab classify`.
//!
//! Each thread has a receive and a transmit ring of 64-byte frames. A burst is written into the receive ring's buffers,
//! as a device would write it into the cache (Intel's DDIO), with random addresses, half of them in the table; that is
//! not timed. Then the burst is classified as in the post, in batches: headers requested, addresses taken out of the
//! frames, buckets requested, addresses looked up, buffers swapped into the transmit ring. That is timed.

pub mod document;
mod memory;
mod page;
mod plan;
mod run;

pub use document::ClassifyReport;
pub use plan::{Lists, Request, settings};
pub use run::Classification;
