//! The part of the plan that only this protocol has.

use super::mix::Mix;
use super::popularity::Popularity;
use super::sizes::Sizes;
use corelane_measure::words;
use serde::{Deserialize, Serialize};

/// Requests to a memcached server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memcached {
    /// Number of keys.
    pub keys: u64,
    /// What every key begins with. Keys with this prefix hold values of this generator only.
    pub prefix: String,
    /// Sizes of keys in bytes, with the prefix; longer if a key needs more for its number.
    pub key_size: Sizes,
    /// Sizes of values in bytes.
    pub value_size: Sizes,
    /// How often each key is asked for.
    pub popularity: Popularity,
    /// Weights of the operations.
    pub mix: Mix,
    /// Seconds after which values expire; `None` for never.
    #[serde(default)]
    pub ttl_s: Option<u32>,
    /// Requests in flight on a connection, at most.
    pub pipeline: usize,
    /// Keys of one request that reads.
    pub multi_get: usize,
    /// Whether meta commands are sent.
    #[serde(default)]
    pub meta: bool,
    /// What follows a miss.
    pub on_miss: OnMiss,
    /// Number in the values that this run writes, above 0; other runs have others.
    pub run: u32,
    /// Whether each key is stored once, in turn, instead of the mix.
    #[serde(default)]
    pub prefill: bool,
}

/// What follows a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// A request that stores the value, as users of a cache do.
    Set,
    /// Nothing.
    Nothing,
}

words!(OnMiss);

/// The most keys of one request.
pub const MOST_KEYS: usize = 128;
