//! `load memcached`: requests to a cache, closed loop or on a schedule; every value that it returns is checked.
//!
//! In: a [`MemcachedPlan`]. Out: a running [`MemcachedLoad`], and at its end a [`MemcachedLoadReport`]. Each worker has keys of its own,
//! so that it knows which versions of their values a read may find (`ledger`), and values name their key, run and version (`value`),
//! as does what is appended to them (`parts`).
//! `judge` and `author` compare answers with that; connections are those of all stream protocols (`streams`).

mod author;
mod counts;
mod datagrams;
mod exchange;
mod judge;
mod keys;
mod ledger;
mod mix;
mod mixing;
mod owners;
mod parts;
mod plan;
mod popularity;
mod prepared;
mod reader;
mod request;
pub mod shapes;
mod sizes;
mod value;

pub use crate::streams::{Model, PlannedPhase, PlannedPool, Timeouts, Until};
pub use counts::{MemcachedCounts, Times, WrongAnswers};
pub use mix::{Mix, MixError, Operation};
pub use owners::{Owners, OwnersError, Said};
pub use plan::{MOST_KEYS, Memcached, OnMiss, PlannedOwners};
pub use popularity::{Draw, Popularity, PopularityError};
pub use sizes::{Sizer, Sizes, SizesError};

use crate::streams::{StreamLoad, StreamLoadReport, StreamPlan};
use crate::udp::{UdpLoad, UdpLoadReport, UdpPlan};

/// A load generator for caches.
pub type MemcachedLoad = StreamLoad<Memcached>;
/// Its plan.
pub type MemcachedPlan = StreamPlan<Memcached>;
/// The results of one generator.
pub type MemcachedLoadReport = StreamLoadReport<Memcached>;

/// A load generator for caches over UDP.
pub type MemcachedUdpLoad = UdpLoad<Memcached>;
/// Its plan.
pub type MemcachedUdpPlan = UdpPlan<Memcached>;
/// The results of one generator.
pub type MemcachedUdpLoadReport = UdpLoadReport<Memcached>;

#[cfg(test)]
mod tests;
